"""What `equigrad doctor` says: how long the tail is, what is likely to help, and what looks wrong."""
