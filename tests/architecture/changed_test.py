"""Tests that tests/changed.py selects the tests that a change reaches, and no others."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import changed

RULES = """
rule CXX
  command = c++ $FLAGS -c $in -o $out

rule LINK
  command = c++ $in -o $out
"""
NINJA = """
include CMakeFiles/rules.ninja

build a.o: CXX ROOT/build/asan/unity.cxx || order
  FLAGS = -O2

build b.o: CXX $
    ROOT/common/b.cc
  FLAGS = -O2

build order: phony ROOT/protos/a.proto

build bin/service: LINK b.o

build bin/a_test: LINK a.o

build bin/b_test: LINK b.o

build bin/service_test: LINK a.o || bin/service

build all: phony bin/a_test bin/b_test bin/service_test
"""
TESTS = """
add_test(a_test "ROOT/build/asan/bin/a_test")
set_tests_properties(a_test PROPERTIES  TIMEOUT "2400")
add_test(b_test "ROOT/build/asan/bin/b_test")
add_test([=[service_test]=] "ROOT/build/asan/bin/service_test")
add_test(script_test "/usr/bin/python3" "ROOT/tests/script_test.py" "ROOT/build/asan")
add_test(page_test "/usr/bin/python3" "ROOT/tests/page_test.py")
"""


class ChangedTest(unittest.TestCase):
    def setUp(self):
        self._old = changed.ROOT, changed.PASSED
        self.addCleanup(lambda: self.use(*self._old))
        self.make_tree()

    def use(self, root, passed):
        changed.ROOT, changed.PASSED = root, passed
        for function in (changed.content, changed.includes, changed.tracked):
            function.cache_clear()

    def make_tree(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        subprocess.run(["git", "init", "-q", self.root], check=True)
        for path, text in {
            "common/a.cc": '#include "common/a.h"\n',
            "common/a.h": '#include "common/deep.h"\n',
            "common/deep.h": "// 1\n",
            "common/b.cc": "// b\n",
            "protos/a.proto": "// proto\n",
            "tests/data.json": "{}\n",
            "tests/script_test.py": "pass\n",
            "build/asan/unity.cxx": '#include "ROOT/common/a.cc"\n',
            "build/asan/CMakeFiles/rules.ninja": RULES,
            "build/asan/build.ninja": NINJA,
            "build/asan/CTestTestfile.cmake": TESTS,
            ".gitignore": "build\n",
        }.items():
            self.write(path, text)
        self.use(self.root, self.root / "tests/passed.txt")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("ROOT", str(self.root)))

    def states(self):
        self.use(self.root, self.root / "tests/passed.txt")
        return changed.states(self.root / "build/asan")

    def reached_by(self, path, text):
        before = self.states()
        self.write(path, text)
        after = self.states()
        return sorted(name for name in after if after[name] != before[name])

    def test_a_source_reaches_its_programs_their_services_and_scripts(self):
        self.assertEqual(self.reached_by("common/b.cc", "// other\n"), ["b_test", "script_test", "service_test"])

    def test_a_header_reaches_through_other_headers(self):
        self.assertEqual(self.reached_by("common/deep.h", "// 2\n"), ["a_test", "script_test", "service_test"])

    def test_a_flag_of_the_compiler_counts(self):
        self.assertEqual(
            self.reached_by("build/asan/build.ninja", NINJA.replace("-O2", "-O3", 1)), ["a_test", "script_test", "service_test"]
        )

    def test_names_that_cmake_writes_only_the_first_time_do_not_count(self):
        text = NINJA.replace("  FLAGS = -O2\n", "  FLAGS = -O2\n  TARGET_COMPILE_PDB = bin/a.pdb\n")
        self.assertEqual(self.reached_by("build/asan/build.ninja", text), [])

    def test_a_proto_counts_through_the_order_of_the_build(self):
        self.assertEqual(self.reached_by("protos/a.proto", "// 2\n"), ["a_test", "script_test", "service_test"])

    def test_data_of_tests_reaches_all_tests(self):
        self.assertEqual(
            self.reached_by("tests/data.json", "[]\n"), ["a_test", "b_test", "page_test", "script_test", "service_test"]
        )

    def test_a_script_reaches_only_scripts(self):
        self.assertEqual(self.reached_by("tests/script_test.py", "1\n"), ["page_test", "script_test"])

    def test_pages_and_what_passed_reach_nothing(self):
        self.assertEqual(self.reached_by("docs/a.md", "page\n"), [])
        self.assertEqual(self.reached_by("tests/passed.txt", "asan a_test 0\n"), [])

    def test_another_clone_has_the_same_hashes(self):
        here = self.states()
        self.make_tree()
        self.assertEqual(self.states(), here)

    def test_only_what_passed_is_recorded(self):
        build = self.root / "build/asan"
        changed.record(build, self.states(), ["a_test", "gone_test"])
        self.assertEqual(changed.changed(build, self.states()), ["b_test", "page_test", "script_test", "service_test"])
        self.write("common/a.cc", "// other\n")
        self.assertIn("a_test", changed.changed(build, self.states()))


if __name__ == "__main__":
    unittest.main()
