"""In a build by GCC and lld, a failed allocation in some functions ended the process.

GCC made empty functions, and lld kept the unwind information of only one of two functions at the same
address. This test looks for functions whose unwind information is missing from the programs.

usage: exceptions_abort_processes_test.py PROGRAM…
"""

import re
import subprocess
import sys
import unittest

PROGRAMS = sys.argv[1:]
del sys.argv[1:]


def hidden_functions(program):
    """Returns the addresses of functions that begin where an empty one begins."""
    frames = subprocess.run(
        ["readelf", "--debug-dump=frames", "-W", program],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout
    ranges = re.findall(r"FDE .* pc=(\w+)\.\.(\w+)", frames)
    assert len(ranges) > 100, f"{program}: readelf shows {len(ranges)} functions"
    empty = {begin for begin, end in ranges if begin == end}
    return sorted(begin for begin, end in ranges if begin != end and begin in empty)


class ExceptionsTest(unittest.TestCase):
    def test_every_function_of_the_programs_has_its_unwind_information(self):
        self.assertTrue(PROGRAMS)
        for program in PROGRAMS:
            self.assertEqual(hidden_functions(program), [], program)


if __name__ == "__main__":
    unittest.main()
