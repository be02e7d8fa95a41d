"""A benchmark of forecasting: public series, peers, scores, and the page of their results."""
