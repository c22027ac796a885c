#!/usr/bin/env python3
"""Tests that the bill of materials names every kind of dependency with version and license."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy"))
import sbom  # noqa: E402


class SbomTest(unittest.TestCase):
    sbom: dict
    missing: list[str]
    by_name: dict[str, dict]

    @classmethod
    def setUpClass(cls):
        cls.sbom, cls.missing = sbom.make_sbom()
        cls.by_name = {c["name"]: c for c in cls.sbom["components"]}

    def test_nothing_that_the_build_needs_is_missing(self):
        self.assertEqual(self.missing, [])

    def test_direct_and_indirect_dependencies_are_listed(self):
        # libc6 and serde are dependencies of dependencies.
        for name, kind in [
            ("libgrpc++-dev", "deb"),
            ("libc6", "deb"),
            ("tokenizers", "cargo"),
            ("serde", "cargo"),
            ("numpy", "pypi"),
            ("grpcio", "pypi"),
        ]:
            self.assertIn(name, self.by_name)
            self.assertTrue(self.by_name[name]["purl"].startswith(f"pkg:{kind}/"), name)

    def test_debian_and_rust_components_have_version_and_license(self):
        for component in self.sbom["components"]:
            self.assertTrue(component["version"], component["name"])
            if not component["purl"].startswith("pkg:pypi/"):
                self.assertTrue(component.get("licenses"), component["name"])

    def test_the_same_dependencies_give_the_same_serial_number(self):
        self.assertEqual(sbom.make_sbom()[0]["serialNumber"], self.sbom["serialNumber"])

    def test_license_texts_of_linked_crates_and_headers_are_written(self):
        text, missing = sbom.license_texts()
        self.assertEqual(missing, [])
        for part in (r"\btokenizers \d", r"\bnlohmann-json3-dev\b", "Apache License", "Permission is hereby granted"):
            self.assertRegex(text, part)


if __name__ == "__main__":
    unittest.main()
