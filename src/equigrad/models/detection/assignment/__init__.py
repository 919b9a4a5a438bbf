"""Which anchor or location is trained on which object."""
