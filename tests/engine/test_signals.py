import hashlib
import os
import signal
import threading

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


def test_a_signal_is_acknowledged_while_one_long_operation_keeps_python_waiting():
    seen = []
    with StopRequest(lambda: seen.append("acknowledged")) as stop:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while not stop.is_set:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 500_000)  # handlers wait for its end
            seen.append("operation")
    assert seen[-2:] == ["acknowledged", "operation"]


def test_a_second_signal_is_not_acknowledged_again_and_the_next_request_is():
    seen = []
    for _ in range(2):
        with StopRequest(lambda: seen.append("acknowledged")):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
    assert seen == ["acknowledged"] * 2
