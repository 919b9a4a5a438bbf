"""Images with boxes and masks."""
