"""Runs a test suite like `python -m unittest discover`, and writes one line for each test.

usage: python run.py TESTS_FOLDER RESULTS_FOLDER

The file RESULTS_FOLDER/<process id> gets lines `outcome test`, where the outcome is ok, skip,
fail, error or missing (it was found, but has no result). The exit status is that of unittest.
Each PE writes its own file, because the output of PEs may interleave.
"""

import os
import sys
import unittest


def names(suite):
    """Yields the names of all tests of a suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id()


class Result(unittest.TextTestResult):
    """The outcome of each test; a failure outweighs earlier and later outcomes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = {}

    def note(self, test, outcome):
        if self.outcomes.get(test.id(), "ok") == "ok":
            self.outcomes[test.id()] = outcome

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "error")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "fail")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "fail")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "fail")


def main():
    tests, results = sys.argv[1:]
    suite = unittest.defaultTestLoader.discover(tests)
    found = list(names(suite))
    result = unittest.TextTestRunner(resultclass=Result).run(suite)
    outcomes = {name: "missing" for name in found}
    outcomes.update(result.outcomes)
    with open(os.path.join(results, str(os.getpid())), "w") as file:
        for name, outcome in sorted(outcomes.items()):
            file.write(f"{outcome} {name}\n")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
