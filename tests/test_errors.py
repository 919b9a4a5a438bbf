from equigrad.engine import EngineError
from equigrad.errors import one_line


def test_an_engine_error_is_caught_where_wrong_values_are():
    assert issubclass(EngineError, ValueError)


def test_the_text_of_an_error_becomes_one_line():
    error = RuntimeError("Error(s) in loading:\n\tsize mismatch for head.weight\n\n  copying a param ")
    assert one_line(error) == "Error(s) in loading: size mismatch for head.weight copying a param"


def test_an_error_without_text_stays_empty():
    assert one_line(KeyboardInterrupt()) == ""
