"""Mixture of Thoughts: several frozen code models joined in latent space."""
