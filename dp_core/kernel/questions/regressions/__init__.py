"""Statistics for private regressions: bounded features, gradients and minimisers."""
