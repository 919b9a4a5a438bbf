"""Images with one category each."""
