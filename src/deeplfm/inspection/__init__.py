"""What a fitted model is made of: forces, spectra, components."""
