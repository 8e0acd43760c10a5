"""The draws themselves, by OpenDP; each takes a grant, none takes a seed."""
