"""What a training says while it goes on: lines for the user, times and the forecast of its end."""
