"""Functions of the Python scripts of this folder: assertions with both values, and the result of a check as the example `interop` reads it."""


def expect(found, expected):
    """Fails with both values unless they are equal."""
    assert found == expected, f"{found!r} instead of {expected!r}"


def refused(kind, job, status=None, code=None):
    """Returns the error that the service must answer with. Fails if the job succeeds or ends with another error."""
    try:
        job()
    except kind as error:
        if status is not None:
            assert error.status_code == status, f"{error.status_code} instead of {status}: {error}"
        if code is not None:
            assert error.error_code == code, f"{error.error_code} instead of {code}: {error}"
        return error
    raise AssertionError(f"not refused as {kind.__name__}")


def check(name, problems):
    """The result of a check, which failed if there are problems."""
    return {"check": name, "problem": "; ".join(problems) or None}


def run(name, job):
    """Runs a job, and returns its result: an exception is the problem."""
    try:
        job()
    except Exception as error:  # Every error is a failed check.
        return check(name, [f"{type(error).__name__}: {error}"[:300]])
    return check(name, [])
