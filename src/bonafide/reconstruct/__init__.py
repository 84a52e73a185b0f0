"""The question reconstructor P(question given context, solution): layout, model, weights, denoising pre-training."""
