from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from equigrad.engine.event_file import EventFile


def test_a_later_file_is_read_later_though_the_clock_was_set_back(tmp_path):
    (tmp_path / "events.out.tfevents.1999999998.host.1").touch()  # of a clock that was ahead
    for purge_step, steps in ((1, (1, 2, 3)), (3, (3, 4))):
        events = EventFile(tmp_path, purge_step)
        for step in steps:
            events.write(step, [("loss", step + purge_step / 10)])
        events.close()
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    shown = [(event.step, round(event.value, 1)) for event in accumulator.Scalars("loss")]
    assert shown == [(1, 1.1), (2, 2.1), (3, 3.3), (4, 4.3)]
