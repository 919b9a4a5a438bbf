"""What `equigrad doctor` says: how long the tail is, what may help, and what looks wrong."""
