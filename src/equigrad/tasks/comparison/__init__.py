"""Several methods on one data set: the data (`sources`), a last layer on frozen features, and the loop over rows."""
