"""Tests the simulation of replicas against what can be computed by hand."""

import json
import tempfile
import unittest

import scaling


def models(options):
    arguments = ["--seconds", "6", "--warmup", "6"]
    for name, value in options.items():
        arguments += [f"--{name}", str(value)]
    parsed = scaling.parse(arguments)
    replica = scaling.Replica(
        scaling.DEMO_CURVE,
        parsed.prefill_rate,
        parsed.prefill_rows,
        parsed.tokens_per_cycle,
        parsed.max_running,
        parsed.cached_sessions,
    )
    workload = scaling.Workload(parsed.prefix_tokens, parsed.new_tokens, parsed.output_tokens, parsed.sessions)
    return (replica, workload), parsed


def figures(replicas, kind, load=0.35, **options):
    setup, parsed = models(options)
    return scaling.simulate(setup, kind, replicas, load, parsed)


class ScalingTest(unittest.TestCase):
    def test_the_curve_is_interpolated(self):
        replica = scaling.Replica({1: 100, 4: 250}, 1, 1, 1, 4, 1)
        self.assertEqual([replica.rate(live) for live in (1, 2, 4, 9)], [100, 150, 250, 250])

    def test_a_lone_request_waits_for_its_prompt_only(self):
        one = figures(1, "least", load=0.02, sessions=1)
        self.assertAlmostEqual(one["first_token_p50"], 60 / 3000, delta=0.015)

    def test_below_the_capacity_the_output_is_what_arrives(self):
        one = figures(4, "affine", load=0.3)
        arriving = 4 * 0.3 * 128 / (128 / scaling.DEMO_CURVE[16] + 60 / 3000)
        self.assertAlmostEqual(one["tokens_per_second"] / arriving, 1, delta=0.15)
        self.assertEqual(one["waiting"], 0)

    def test_above_the_capacity_requests_wait(self):
        one = figures(2, "least", load=1.5)
        self.assertGreater(one["waiting"], 0)
        self.assertLess(one["tokens_per_second"] / 2, scaling.DEMO_CURVE[16])

    def test_an_affine_router_keeps_prefixes_that_a_random_one_loses(self):
        affine, chance = figures(8, "affine", load=0.3), figures(8, "random", load=0.3)
        self.assertGreater(affine["hits"], 0.7)
        self.assertLess(chance["hits"], 0.4)
        self.assertLess(affine["first_token_p95"], chance["first_token_p95"])

    def test_the_target_is_kept_at_a_higher_rate_with_affinity(self):
        setup, parsed = models({"bisections": 4, "replicas": 8})
        best = {kind: scaling.at_target(setup, kind, 8, parsed) for kind in ("random", "affine")}
        for one in best.values():
            self.assertLessEqual(one["first_token_p95"], parsed.target)
        self.assertGreater(best["affine"]["requests_per_second"], 1.5 * best["random"]["requests_per_second"])
        self.assertLess(best["affine"]["cost"], best["random"]["cost"])

    def test_with_one_replica_the_router_has_no_choice(self):
        least, affine = figures(1, "least"), figures(1, "affine")
        self.assertEqual(least["tokens_per_second"], affine["tokens_per_second"])

    def test_results_without_the_policy_are_refused_by_its_name(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"levels": [{"concurrency": 1, "arms": [{"policy": "ar", "system_tokens_per_second": 1}]}]}, file)
            file.flush()
            self.assertEqual(scaling.curve_of(file.name, "ar"), {1: 1})
            with self.assertRaisesRegex(SystemExit, "default"):
                scaling.curve_of(file.name, "default")


if __name__ == "__main__":
    unittest.main()
