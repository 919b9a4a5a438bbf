"""Images with a label map each."""
