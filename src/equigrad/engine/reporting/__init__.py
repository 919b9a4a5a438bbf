"""What the user sees of a training: progress lines, timing, and the estimated end."""
