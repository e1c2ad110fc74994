"""Tools of the patch series: one module per verb, run as ``python -m tools VERB``."""
