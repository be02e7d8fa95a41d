"""Parts of a fitted model: components of the forecast, forces, spectra."""
