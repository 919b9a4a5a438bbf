"""The commands of the command line, a module for each group; what they need is imported when they run."""
