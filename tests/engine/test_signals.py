import os
import signal

import pytest

from equigrad.engine.signals import StopRequest


def test_the_first_signal_is_a_request_and_a_second_ctrl_c_interrupts():
    with StopRequest() as stop:
        assert not stop.is_set
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_of_the_caller_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
