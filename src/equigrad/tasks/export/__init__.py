"""A trained run as a file to deploy: what goes into it, the formats, and the comparison with the run."""
