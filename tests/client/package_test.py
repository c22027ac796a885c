"""Tests that a project outside this tree can use the C++ SDK in each way that docs/cpp-client.md names:
builds tests/client/package and runs it with the demo services."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "slow"))
from demo_services import DemoServices, total  # noqa: E402

PROJECT = ROOT / "tests" / "client" / "package"
PROMPT = "import os\nimport sys\n\n\ndef main(argv):\n"
# Cycles of a canceled request that its client has not seen: the one in which the server learns of it, and
# those on the way. Mostly 2; more if the machine is busy with other work.
MOST_UNSEEN_CYCLES = 20
ARGUMENTS = argparse.Namespace()  # Parsed below.


def run(*command):
    """The standard output of a command, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class PackageTest(unittest.TestCase):
    services: DemoServices

    @classmethod
    def setUpClass(cls):
        cls.services = cls.enterClassContext(DemoServices(ARGUMENTS.build / "bin", ["--stream_interval=0"]))

    def test_the_installed_package(self):
        prefix = ARGUMENTS.out / "prefix"
        shutil.rmtree(prefix, ignore_errors=True)
        run("cmake", "--install", ARGUMENTS.build, "--component", "bastion-client", "--prefix", prefix)
        for file in prefix.rglob("*.cmake"):
            self.assertNotIn(str(ROOT), file.read_text(), file)
        self.use("package", f"-DCMAKE_PREFIX_PATH={prefix}")

    def test_fetch_content_of_the_repository(self):
        self.use("fetch", f"-DFETCHCONTENT_SOURCE_DIR_BASTION={ROOT}")

    def test_the_folder_of_the_sdk(self):
        self.use("folder", f"-DBASTION_FOLDER={ROOT}")

    def use(self, way, *options):
        """Builds the project, and checks what its programs do."""
        build = ARGUMENTS.out / way
        run(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            PROJECT,
            "-B",
            build,
            f"-DWAY={way}",
            f"-DCMAKE_CXX_COMPILER={ARGUMENTS.compiler}",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={ARGUMENTS.launcher}",
            *options,
        )
        run("cmake", "--build", build, "--parallel", "1")
        self.check_that_an_answer_is_streamed(build)
        self.check_that_an_error_names_the_field(build)
        self.check_that_cancel_frees_the_sequence(build)

    def check_that_an_answer_is_streamed(self, build):
        expected = self.services.ctl("generate", "--prompt", PROMPT, "--max_new_tokens", "64", "--nostats").stdout
        answer = run(build / "stream_answer", self.services.endpoint, PROMPT)
        self.assertGreater(len(answer), 20)
        self.assertEqual(answer.strip(), expected.strip())

    def check_that_an_error_names_the_field(self, build):
        done = subprocess.run([build / "explain_error", self.services.endpoint], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?s)^request req-\w+ failed: .*\nfield sampling\.top_p ")

    def check_that_cancel_frees_the_sequence(self, build):
        before = self.cycles()
        printed = run(build / "cancel_answer", self.services.endpoint, PROMPT)
        status, seen = printed.split()
        self.assertEqual(status, "CANCELLED")
        self.assertLessEqual(self.cycles() - before - int(seen), MOST_UNSEEN_CYCLES)
        for service in ("verifier", "drafter"):
            metric = f"bastion_{service}_sequences"
            self.assertEqual(total(self.services.metrics(service), metric), 0, metric)

    def cycles(self):
        return total(self.services.metrics(), "bastion_cycles_total")


class DocumentationTest(unittest.TestCase):
    def test_every_block_of_code_is_compiled(self):
        page = (ROOT / "docs" / "cpp-client.md").read_text()
        blocks = re.findall(r"```(cpp|cmake)\n(.*?)```", page, re.S)
        self.assertGreater(len(blocks), 5)
        compiled = {"cpp": lines_of("*.cc"), "cmake": lines_of("CMakeLists.txt")}
        for language, block in blocks:
            self.assertIn(lines_in(block), compiled[language], block)


def lines_in(text):
    """The lines that are not empty, without indentation."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"


def lines_of(pattern):
    return "".join(lines_in(file.read_text()) for file in sorted(PROJECT.glob(pattern)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="A build of this project")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="Folder for the builds")
    parser.add_argument("--compiler", required=True, help="The C++ compiler of the build")
    parser.add_argument("--launcher", default="", help="What starts it, e.g. ccache")
    ARGUMENTS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
