"""Methods by name, for each kind of model: what the paper's rows and `--method` mean."""
