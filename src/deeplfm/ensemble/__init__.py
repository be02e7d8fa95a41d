"""Other families of models, which an ensemble may hold beside latent force models."""
