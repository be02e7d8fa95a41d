"""Model selection: split the rows, fit candidates, score, calibrate, weigh."""
