"""Tests that every check reports files that violate its rule, and no others."""

import unittest

import checks
import cmake_checks
import english_checks
import rules
from source import File, Scan, skeleton


def findings(check, *files):
    return [str(o) for o in check([File(path, text) for path, text in files])]


def function(lines, parameters="int a"):
    return f"int Long({parameters}) {{\n" + "  a += 1;\n" * lines + "}\n"


class WatchedPathsCheck(unittest.TestCase):
    def test_watched_paths_that_do_not_exist_are_reported(self):
        file = File("tests/slow/a_test.py", '"""Doc.\n\nwatches: common/wire deploy/gone\n"""\n')
        found = checks.watched_paths([file], exists=lambda path: path == "common/wire")
        self.assertEqual([str(f) for f in found], ["tests/slow/a_test.py:3: watches deploy/gone, which does not exist"])

    def test_only_slow_tests_watch(self):
        self.assertFalse(findings(checks.watched_paths, ("tests/slow/a.py", "watches: deploy/gone\n")))


class IncludeChecks(unittest.TestCase):
    def includes(self, path, *included):
        text = "".join(f'#include "{i}"\n' for i in included)
        return findings(checks.include_direction, (path, text))

    def test_includes_against_the_direction_are_reported(self):
        self.assertEqual(
            self.includes("common/stages/a.h", "common/base/b.h", "common/wire/c.h"),
            ["common/stages/a.h:2: common/stages may not include common/wire/c.h"],
        )

    def test_the_services_do_not_include_each_other(self):
        self.assertTrue(self.includes("drafter_service/serve/a.cc", "verifier_service/verify/b.h"))
        self.assertTrue(self.includes("verifier_service/verify/a.cc", "drafter_service/draft/b.h"))

    def test_kernels_include_only_the_base(self):
        self.assertFalse(self.includes("kernels/cpu/a.cc", "kernels/ops/ops.h", "common/base/ids.h"))
        self.assertTrue(self.includes("kernels/cpu/a.cc", "common/stages/b.h"))

    def test_kernel_folders_do_not_include_the_folders_above_them(self):
        self.assertTrue(self.includes("kernels/cpu/a.cc", "kernels/cuda/ops.h"))
        self.assertTrue(self.includes("kernels/ops/a.cc", "kernels/cpu/kernels.h"))

    def test_orchestrator_folders_include_only_the_folders_below_them(self):
        self.assertFalse(self.includes("orchestrator/policy/a.cc", "orchestrator/tree/b.h"))
        self.assertTrue(self.includes("orchestrator/tree/a.cc", "orchestrator/policy/b.h"))

    def test_tests_and_clients_are_not_included(self):
        self.assertTrue(self.includes("common/base/a.cc", "tests/support/b.h"))
        self.assertTrue(self.includes("orchestrator/api/a.cc", "client/cpp/b.h"))

    def test_tests_include_everything(self):
        self.assertFalse(self.includes("tests/client/a.cc", "client/cpp/b.h", "kernels/ops/ops.h"))

    def test_include_paths_that_begin_elsewhere_are_checked(self):
        self.assertFalse(self.includes("client/ctl/a.cc", "bastion/b.h", "bastion/v1/c.pb.h"))
        self.assertEqual(
            self.includes("client/cpp/bastion/a.h", "bastion/internal/v1/c.pb.h"),
            ["client/cpp/bastion/a.h:1: client/cpp may not include protos/bastion/internal/v1/c.pb.h"],
        )
        self.assertTrue(self.includes("orchestrator/api/a.cc", "bastion/b.h"))

    def test_a_folder_without_a_rule_is_reported(self):
        self.assertTrue(self.includes("unknown/a.cc", "common/base/b.h"))

    def test_include_cycles_are_reported(self):
        saved = rules.MAY_INCLUDE
        try:
            rules.MAY_INCLUDE = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}
            self.assertEqual(
                [str(o) for o in checks.include_cycles([])], ["tests/architecture/rules.py:1: include cycle: a -> b -> c -> a"]
            )
            rules.MAY_INCLUDE = {"a": ["b", "c"], "b": ["c"], "c": []}
            self.assertEqual(list(checks.include_cycles([])), [])
        finally:
            rules.MAY_INCLUDE = saved

    def test_unused_permissions_are_reported(self):
        names = ("MAY_INCLUDE", "LIBRARIES", "CONDITIONALS_ALLOWED", "NDEBUG_ALLOWED", "SETTINGS_ALLOWED")
        for name in names:
            self.addCleanup(setattr, rules, name, getattr(rules, name))
        rules.MAY_INCLUDE = {"a": [], "b": ["a", "c"], "c": []}
        rules.LIBRARIES = {"torch": (("torch/",), ["b", "c"])}
        rules.CONDITIONALS_ALLOWED, rules.NDEBUG_ALLOWED, rules.SETTINGS_ALLOWED = ["b/x.cc", "b/y.cc"], ["c/"], ["main.cc"]
        files = [("b/x.cc", '#include "a/a.h"\n#include "torch/torch.h"\n#if HWY\n#endif\n'), ("c/main.cc", "// getenv\n")]
        self.assertEqual(
            [line.split("uses the permission ")[1] for line in findings(checks.unused_permissions, *files)],
            [
                "c of MAY_INCLUDE[b]",
                "c of torch",
                "b/y.cc of CONDITIONALS_ALLOWED",
                "c/ of NDEBUG_ALLOWED",
                "main.cc of SETTINGS_ALLOWED",
            ],
        )
        files[1] = ("c/main.cc", '#include "torch/torch.h"\nx = getenv("X");\n#ifdef NDEBUG\n#endif\n')
        files += [("b/y.cc", '#include "c/c.h"\n#if HWY\n#endif\n')]
        self.assertFalse(findings(checks.unused_permissions, *files))

    def test_restricted_libraries_are_reported_in_other_folders(self):
        def libraries(path, text):
            return findings(checks.restricted_libraries, (path, text))

        self.assertTrue(libraries("kernels/cpu/a.cc", "#include <ATen/ATen.h>\n"))
        self.assertTrue(libraries("orchestrator/tree/a.cc", "#include <torch/torch.h>\n"))
        self.assertTrue(libraries("engine/model/a.cc", "#include <grpcpp/grpcpp.h>\n"))
        self.assertTrue(libraries("orchestrator/text/a.cc", '#include "common/hub/ffi.h"\n'))
        self.assertTrue(libraries("engine/model/a.cc", "#include <ATen/ATen.h>\n"))
        self.assertFalse(libraries("kernels/torch/a.cc", "#include <ATen/ATen.h>\n"))

    def test_torch_and_protos_in_one_file_are_reported(self):
        both = '#include <c10/core/Device.h>\n#include "bastion/v1/generation.pb.h"\n'
        self.assertTrue(findings(checks.torch_and_protos, ("drafter_service/serve/a.cc", both)))
        one = both.splitlines()[1]
        self.assertFalse(findings(checks.torch_and_protos, ("drafter_service/serve/a.cc", one)))


class LinkChecks(unittest.TestCase):
    HEADER = ("common/base/b.h", "")

    def links(self, cmake, *files):
        return findings(
            cmake_checks.linked_dependencies,
            ("common/base/CMakeLists.txt", "bastion_library(NAME base SRCS b.cc)\n"),
            ("common/base/b.cc", ""),
            self.HEADER,
            ("common/wire/CMakeLists.txt", cmake),
            *files,
        )

    def test_an_unlisted_library_is_reported(self):
        source = ("common/wire/a.cc", '#include "common/base/b.h"\n#include "absl/time/time.h"\n')
        self.assertEqual(
            self.links("bastion_library(NAME wire SRCS a.cc DEPS absl::status)\n", source),
            [
                "common/wire/CMakeLists.txt:1: wire includes absl/time/time.h but does not list absl::time",
                "common/wire/CMakeLists.txt:1: wire includes common/base/b.h but does not list base",
            ],
        )
        self.assertFalse(self.links("bastion_library(NAME wire SRCS a.cc\n  DEPS base absl::time)\n", source))

    def test_libraries_in_plain_cmake_are_checked(self):
        source = ("common/wire/a.cc", '#include "common/base/b.h"\n')
        self.assertEqual(
            self.links("add_library(wire STATIC a.cc)\ntarget_link_libraries(wire PUBLIC x)\n", source),
            ["common/wire/CMakeLists.txt:1: wire includes common/base/b.h but does not list base"],
        )
        self.assertFalse(self.links("add_library(wire STATIC\n  a.cc)\ntarget_link_libraries(wire PUBLIC\n  x base)\n", source))

    def test_the_header_of_a_source_is_also_checked(self):
        header = ("common/wire/a.h", '#include "common/base/b.h"\n')
        cmake = "set(FILES a.cc)\nbastion_library(NAME wire SRCS ${FILES} DEPS absl::time)\n"
        self.assertEqual(len(self.links(cmake, ("common/wire/a.cc", ""), header)), 1)

    def test_sources_that_a_pattern_finds_are_checked(self):
        source = ("common/wire/a.cc", '#include "common/base/b.h"\n')
        cmake = (
            "file(GLOB SOURCES RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)\n%s"
            "bastion_library(NAME wire SRCS ${SOURCES} DEPS absl::time)\n"
        )
        self.assertEqual(len(self.links(cmake % "", source)), 1)
        self.assertFalse(self.links(cmake % "", ("common/wire/deeper/a.cc", source[1])))
        self.assertFalse(self.links(cmake % "list(REMOVE_ITEM SOURCES a.cc)\n", source))


class PreprocessorChecks(unittest.TestCase):
    GUARD = "#ifndef BASTION_COMMON_BASE_A_H_\n#define BASTION_COMMON_BASE_A_H_\n#endif\n"

    def test_conditionals_are_reported(self):
        def conditionals(path, text):
            return findings(checks.conditional_compilation, (path, text))

        self.assertFalse(conditionals("common/base/a.h", self.GUARD))
        self.assertTrue(conditionals("common/base/a.h", self.GUARD + "#ifdef __linux__\n#endif\n"))
        self.assertTrue(conditionals("common/base/a.cc", "  #  if 0\n#endif\n"))
        self.assertTrue(conditionals("common/base/a.cc", "#ifdef NDEBUG\n#endif\n"))
        self.assertFalse(conditionals("common/base/check.h", "#ifdef NDEBUG\n#endif\n"))
        self.assertFalse(conditionals("kernels/cpu/a.cc", "#if HWY_ONCE\n#endif\n"))

    def test_wrong_header_guards_are_reported(self):
        self.assertFalse(findings(checks.header_guards, ("common/base/a.h", self.GUARD)))
        self.assertTrue(findings(checks.header_guards, ("common/base/b.h", self.GUARD)))
        self.assertTrue(findings(checks.header_guards, ("common/base/b.h", "#pragma once\n")))
        self.assertTrue(findings(checks.header_guards, ("common/base/a.cuh", self.GUARD)))
        cuda = self.GUARD.replace("_A_H_", "_A_CUH_")
        self.assertFalse(findings(checks.header_guards, ("common/base/a.cuh", cuda)))

    def test_flags_and_environment_outside_main_are_reported(self):
        def settings(path, text):
            return findings(checks.flags_and_environment, (path, text))

        self.assertTrue(settings("common/base/a.cc", 'x = getenv("HOME");\n'))
        self.assertTrue(settings("common/base/a.cc", 'ABSL_FLAG(int, x, 0, "");\n'))
        self.assertFalse(settings("client/ctl/main.cc", 'x = std::getenv("HOME");\n'))
        self.assertFalse(settings("common/base/a.cc", "// No getenv() here.\n"))


class SizeChecks(unittest.TestCase):
    def test_long_files_are_reported(self):
        limit = rules.MAX_FILE_LINES
        self.assertFalse(findings(checks.file_length, ("a.cc", "\n" * limit)))
        self.assertEqual(
            findings(checks.file_length, ("a.cc", "\n" * (limit + 1))),
            [f"a.cc:{limit + 1}: {limit + 1} lines, at most {limit}"],
        )

    def test_long_functions_are_reported(self):
        limit = rules.MAX_FUNCTION_LINES
        self.assertFalse(findings(checks.function_size, ("a.cc", function(limit))))
        self.assertEqual(
            findings(checks.function_size, ("a.cc", "\n" + function(limit + 1))),
            [f"a.cc:2: Long is {limit + 1} lines long, at most {limit}"],
        )
        nested = "namespace n {\nclass C {\n public:\n" + function(limit + 1) + "};\n}\n"
        self.assertTrue(findings(checks.function_size, ("a.h", nested)))

    def test_long_cuda_kernels_are_reported(self):
        limit = rules.MAX_FUNCTION_LINES
        long = "__global__ void __launch_bounds__(32 * kWarps, 2)\n" + function(limit + 1).replace("int ", "", 1)
        for path in ("a.cu", "a.cuh"):
            self.assertEqual(
                findings(checks.function_size, (path, long)), [f"{path}:1: Long is {limit + 1} lines long, at most {limit}"]
            )
            six = function(1, "int a, int b, int c, int d, int e, int f")
            bounded = "__global__ __launch_bounds__(128) " + six.replace("int", "void", 1)
            self.assertEqual(len(findings(checks.function_size, (path, bounded))), 1)

    def test_long_python_functions_are_reported(self):
        long = "def f(a):\n" + "    a += 1\n" * (rules.MAX_FUNCTION_LINES + 1)
        self.assertTrue(findings(checks.function_size, ("a.py", long)))
        self.assertTrue(findings(checks.function_size, ("a.py", "def f(a, b, c, d, e, f): pass\n")))
        self.assertFalse(findings(checks.function_size, ("a.py", "def f(a, *, b, c, d, e, f): pass\n")))

    def test_too_many_parameters_are_reported(self):
        six = "int a, int b, int c, int d, int e, int f"
        for text in (function(1, six), f"void F({six});\n", f"struct S {{ S({six}) : a_{{a}}, b_(b) {{}} }};\n"):
            self.assertEqual(len(findings(checks.function_size, ("a.cc", text))), 1, text)
        templated = "std::map<int, std::pair<int, int>> F(std::map<int, int> a, std::function<int(int, int)> b);\n"
        self.assertFalse(findings(checks.function_size, ("a.cc", templated)))

    def test_large_config_structs_are_reported(self):
        def config(fields):
            return "struct RunConfig {\n" + "".join(f"  int f{i} = 0;\n" for i in range(fields)) + "};\n"

        self.assertFalse(findings(checks.config_size, ("a.h", config(rules.MAX_CONFIG_FIELDS))))
        self.assertTrue(findings(checks.config_size, ("a.h", config(rules.MAX_CONFIG_FIELDS + 1))))


class TextChecks(unittest.TestCase):
    def test_open_tasks_are_reported(self):
        self.assertTrue(findings(checks.open_tasks, ("a.cc", "// TO" + "DO(me): later\n")))
        self.assertTrue(findings(checks.open_tasks, ("a.py", "# FIX" + "ME\n")))
        self.assertFalse(findings(checks.open_tasks, ("a.cc", "// Nothing to do here.\n")))

    def test_commented_out_code_is_reported(self):
        code = "// foo.Bar(1);\n// return x;\n"
        self.assertTrue(findings(checks.commented_out_code, ("a.cc", code)))
        self.assertTrue(findings(checks.commented_out_code, ("a.cc", '// #include "a.h"\n')))
        prose = "// Returns the sum;\n// NOT_FOUND without one; see there.\n// x = 3; so y grows.\n"
        self.assertFalse(findings(checks.commented_out_code, ("a.cc", prose)))

    def test_broken_links_are_reported(self):
        def links(text):
            files = [File("docs/a.md", text), File("common/base/ids.h", "")]
            return [str(o) for o in checks.links(files, {"docs/b.md", "common/base/ids.h"}.__contains__)]

        self.assertFalse(links("[b](b.md#part), [web](https://example.org), `common/base/ids.h`\n"))
        self.assertEqual(links("\n[c](../c.md)\n"), ["docs/a.md:2: link to a missing file: docs/../c.md"])
        self.assertTrue(links("see `common/base/gone.h`\n"))

    def test_missing_anchors_are_reported(self):
        def anchors(text, path="docs/a.md"):
            headings = "# One\n## Two `words`, *here*\n## [Three](x.md)\n## One\n```\n# four\n```\n"
            return findings(checks.anchors, ("docs/b.md", headings), (path, text))

        self.assertFalse(anchors("[x](b.md#one), [x](b.md#two-words-here), [x](b.md#three), [x](b.md#one-1)\n"))
        self.assertFalse(anchors("# Here\n[x](#here), [x](b.md), [web](https://example.org/#x), [x](c.h#L1)\n"))
        self.assertFalse(anchors("[x](docs/b.md#three)\n", "README.md"))
        self.assertEqual(anchors("\n[x](b.md#four)\n"), ["docs/a.md:2: no heading for #four in docs/b.md"])
        self.assertEqual(anchors("[x](#here)\n"), ["docs/a.md:1: no heading for #here in docs/a.md"])


class EnglishChecks(unittest.TestCase):
    def english(self, path, text):
        return findings(english_checks.plain_english, (path, text))

    def test_phrases_to_avoid_are_reported(self):
        avoided = "No" + "body"
        said = self.english("a.cc", f"int a;\n// {avoided} reads it.\n")
        self.assertEqual(said, [f"a.cc:2: avoid '{avoided}'; say it in plain English"])
        self.assertGreater(len(english_checks.AVOIDED), 10)
        for phrase in english_checks.AVOIDED:
            self.assertEqual(len(self.english("docs/a.md", f"Rows {phrase} here.\n")), 1, phrase)
        self.assertFalse(self.english("docs/a.md", "Many threads take the likely path and renew it.\n"))

    def test_fragments_are_reported(self):
        of = "Of"
        for text in (
            f"// {of} all rows.\n",
            f"int a;  // {of} all rows.\n",
            f"# {of} all rows.\n",
            f'"""{of} all rows."""\n',
            f'ABSL_FLAG(int, a, 0, "{of} all rows.");\n',
        ):
            self.assertEqual(self.english("a.cc", text), [f"a.cc:1: a comment begins with a fragment ('{of} ...')"])
        self.assertFalse(self.english("a.cc", "// The number of rows, often one.\n"))
        self.assertFalse(self.english("docs/a.md", f"# {of} trees\n"))

    def test_data_is_not_checked(self):
        self.assertFalse(self.english("deploy/demo_model/target/a.md", "No" + "body\n"))


class DocumentationChecks(unittest.TestCase):
    def length(self, path, text):
        return findings(checks.documentation_length, (path, text))

    def test_a_readme_with_too_many_words_is_reported(self):
        limit = rules.README_WORDS
        self.assertFalse(self.length("README.md", "word " * (limit - 1)))
        self.assertEqual(self.length("README.md", "word " * limit), [f"README.md:1: {limit} words; must be fewer than {limit}"])

    def test_a_long_readme_is_reported(self):
        limit = rules.README_LINES
        self.assertFalse(self.length("README.md", "\n" * limit))
        self.assertEqual(
            self.length("README.md", "\n" * (limit + 1)), [f"README.md:{limit + 1}: {limit + 1} lines, at most {limit}"]
        )

    def test_a_long_page_is_reported(self):
        limit = rules.MAX_PAGE_LINES
        for path in ("docs/a.md", "docs/decisions/b.md"):
            self.assertFalse(self.length(path, "\n" * limit))
            self.assertEqual(self.length(path, "\n" * (limit + 1)), [f"{path}:{limit + 1}: {limit + 1} lines, at most {limit}"])
        self.assertFalse(self.length("docs/images/draw.py", "\n" * (limit + 1)))
        self.assertFalse(self.length("deploy/README.md", "\n" * (limit + 1)))

    def test_missing_files_are_reported(self):
        def required(*present):
            return [str(o) for o in checks.required_files([], present.__contains__)]

        self.assertFalse(required(*rules.REQUIRED_FILES))
        self.assertEqual(required(*rules.REQUIRED_FILES[1:]), ["LICENSE:1: this file is missing"])
        self.assertEqual(len(required()), len(rules.REQUIRED_FILES))


class ScanTest(unittest.TestCase):
    def test_literals_and_comments_are_removed(self):
        text = skeleton('a("{ // }"); // {\n/* {\n */ b(\'{\', R"(}{)", 1\'000);\n#define X {\nc')
        self.assertEqual(text.count("{") + text.count("}"), 0)
        self.assertEqual(text.count("\n"), 4)

    def test_functions_and_their_parameters_are_found(self):
        text = """
        namespace n {
        using F = void (*)(int, int);
        constexpr int kTable[] = {1, 2};
        const std::string kName = Make(1, 2);
        template <typename T> bool operator<(const T& a, const T& b) { return a.x < b.x; }
        A::A(int a) : a_(a), b_{a} { if (a) { Do(a); } }
        auto B::Call(int x) const -> int { return [&](int y) { return x + y; }(1); }
        }
        """
        self.assertEqual([(f.name, f.parameters) for f in Scan(text).functions], [("operator<", 2), ("A", 1), ("Call", 1)])

    def test_functions_after_braces_in_arguments_are_found(self):
        text = """
        A::A(int a) : a_(a, {1, 2}), b_([&] { return a; }), c_{a} { Do(a); }
        std::function<void()> A::Callback() const { return [] {}; }
        void A::Run() { a_ = 1; }
        """
        self.assertEqual([f.name for f in Scan(text).functions], ["A", "Callback", "Run"])

    def test_definitions_that_the_scan_does_not_see_are_reported(self):
        text = "int a = {\n\nvoid A::B(int x) {\n  Do(x);\n}\nstd::map<int, int> A::C() const {\n}\n"
        self.assertEqual(
            findings(checks.unseen_functions, ("a.cc", text)),
            [f"a.cc:{line}: the scan of source.py does not see {name}: mend the scan" for line, name in ((3, "B"), (6, "C"))],
        )
        self.assertFalse(findings(checks.unseen_functions, ("a.cc", text.replace("int a = {", "int a;"))))

    def test_fields_are_counted_without_functions(self):
        text = "struct S {\n  int a, b = 2;\n  std::map<int, int> c;\n  bool d() const { return a; }\n  S();\n};\n"
        self.assertEqual(Scan(text).structs[0].fields, 3)


if __name__ == "__main__":
    unittest.main()
