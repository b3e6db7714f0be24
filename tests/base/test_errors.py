"""Words for errors that a user can cause."""

from base import errors


def test_reason_is_the_text_of_an_error_without_code_and_path():
    error = FileNotFoundError(2, "No such file or directory", "/x")
    assert errors.reason(error) == "No such file or directory"
    assert errors.reason(ValueError("bad")) == "bad"
    error.strerror = (
        "{{function_node __wrapped__SaveV2_device_/CPU:0}} x.data; No space "
        "left on device\n\tFailed [Op:SaveV2] name: "
    )
    words = "x.data; No space left on device\n\tFailed"
    assert errors.reason(error) == words
