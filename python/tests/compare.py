"""Comparing values of any type, with NaN equal to NaN and -0.0 different from 0.0."""


def listed(values):
    """Python objects of anything that reading returns."""
    for method in ("tolist", "to_pylist", "to_list"):
        if hasattr(values, method):
            return listed(getattr(values, method)())
    if isinstance(values, dict):
        return {key: listed(value) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(listed, values))
    return list(map(listed, values)) if isinstance(values, list) else values


def same(left, right):
    """Whether two results hold the same values."""
    return repr(listed(left)) == repr(listed(right))
