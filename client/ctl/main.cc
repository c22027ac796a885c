// bastionctl: talks to running services from a terminal.
// `bastionctl verify-exactness` and `bastionctl doctor` run bastion-verify-exactness and
// bastion-doctor from the same folder and pass on the arguments. These programs embed the engines
// or their loaders; bastionctl stays small. The exit status is 0 only on success. An error is one
// line on stderr.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/flags/flag.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bastion/generation_client.h"
#include "bastion/inspection_client.h"
#include "client/ctl/answer_printer.h"
#include "client/ctl/chrome_trace.h"
#include "client/ctl/explain.h"
#include "client/ctl/explain_page.h"
#include "client/ctl/render.h"
#include "client/flags/sampling.h"
#include "common/base/program.h"
#include "common/base/status.h"

ABSL_FLAG(std::string, endpoint, "127.0.0.1:7070", "Address of the orchestrator.");
ABSL_FLAG(std::string, prompt, "", "Prompt for generate and explain.");
ABSL_FLAG(std::string, prompt_file, "", "File with the prompt. -: standard input.");
ABSL_FLAG(std::string, system, "", "System message for chat.");
ABSL_FLAG(
    std::string, template_args, "",
    "JSON object of further variables of the chat template, e.g. {\"enable_thinking\": false}.");
ABSL_FLAG(int, max_new_tokens, 128, "Maximum number of tokens to generate.");
ABSL_FLAG(std::vector<std::string>, stop, {},
          "Strings that end the answer, separated by commas. The answer excludes them.");
ABSL_FLAG(float, temperature, 0, "Sampling temperature. 0: greedy.");
ABSL_FLAG(uint64_t, seed, 0, "Random seed for sampling. 0: the server draws a seed.");
ABSL_FLAG(std::string, sampling, "",
          "Further sampling parameters, e.g. \"top_k=40,top_p=0.9,repetition_penalty=1.1\".");
ABSL_FLAG(std::string, policy, "",
          "Speculation policy, e.g. adaptive, fixed:16 or ar. Empty: the server's default.");
ABSL_FLAG(uint32_t, n, 1, "Number of answers of generate to the prompt, at most 128.");
ABSL_FLAG(std::string, cache_salt, "",
          "Share the memory of equal prompt beginnings only with requests of the same salt.");
ABSL_FLAG(std::string, json_schema, "", "JSON schema of the answer.");
ABSL_FLAG(std::string, regex, "", "Regular expression that the answer matches.");
ABSL_FLAG(std::string, grammar, "", "Lark grammar of the answer.");
ABSL_FLAG(double, seconds, 5, "Seconds that timeline records, at most 60.");
ABSL_FLAG(std::string, o, "", "File for the timeline, in the Chrome trace format.");
ABSL_FLAG(std::string, html, "", "File for a page that shows what explain prints.");
ABSL_FLAG(uint32_t, tree_nodes, 24, "Nodes of each tree that explain draws, accepted ones first.");
ABSL_FLAG(bool, stats, true, "Print a line of statistics after each answer.");

namespace bastion {
namespace {

constexpr char kExample[] = "generate --prompt \"def fibonacci(n):\"";

absl::Status WriteFile(const std::string& file, absl::string_view content) {
  std::ofstream stream(file, std::ios::binary);
  stream << content;
  stream.close();
  if (!stream) return absl::UnavailableError(absl::StrCat("cannot write ", file));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPrompt() {
  const std::string file = absl::GetFlag(FLAGS_prompt_file);
  if (file.empty()) return absl::GetFlag(FLAGS_prompt);
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return absl::NotFoundError(absl::StrCat("--prompt_file ", file, ": cannot read the file"));
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// The constraint that a flag names.
absl::Status SetConstraint(v1::GenerateRequest& request) {
  int constraints = 0;
  const auto set = [&](const std::string& text, std::string* (v1::Constraint::*field)()) {
    if (text.empty()) return;
    *(request.mutable_constraint()->*field)() = text;
    ++constraints;
  };
  set(absl::GetFlag(FLAGS_json_schema), &v1::Constraint::mutable_json_schema);
  set(absl::GetFlag(FLAGS_regex), &v1::Constraint::mutable_regex);
  set(absl::GetFlag(FLAGS_grammar), &v1::Constraint::mutable_grammar);
  if (constraints <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("use one of --json_schema, --regex and --grammar");
}

absl::StatusOr<v1::GenerateRequest> RequestFromFlags() {
  v1::GenerateRequest request;
  ASSIGN_OR_RETURN(SamplingParams sampling, ParseSampling(absl::GetFlag(FLAGS_sampling)));
  sampling.temperature = absl::GetFlag(FLAGS_temperature);
  Encode(sampling, *request.mutable_sampling());
  if (absl::GetFlag(FLAGS_seed) != 0) {
    request.mutable_sampling()->set_seed(absl::GetFlag(FLAGS_seed));
  }
  request.mutable_stop()->set_max_tokens(absl::GetFlag(FLAGS_max_new_tokens));
  for (const std::string& stop : absl::GetFlag(FLAGS_stop)) {
    request.mutable_stop()->add_stop(stop);
  }
  request.mutable_speculation()->set_policy(absl::GetFlag(FLAGS_policy));
  request.set_cache_salt(absl::GetFlag(FLAGS_cache_salt));
  RETURN_IF_ERROR(SetConstraint(request));
  return request;
}

// Streams the answers to stdout and returns the first one.
absl::StatusOr<std::string> Answer(GenerationClient& client, const v1::GenerateRequest& request) {
  AnswerPrinter printer(request.has_n() ? request.n() : 1, &std::cout,
                        absl::GetFlag(FLAGS_stats) ? &std::cerr : nullptr);
  RETURN_IF_ERROR(client.Generate(request, [&](const v1::GenerateResponse& event) {
    printer.Print(event);
    return std::cout.good();
  }));
  return printer.first();
}

absl::Status Generate(GenerationClient& client) {
  ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt());
  ASSIGN_OR_RETURN(v1::GenerateRequest request, RequestFromFlags());
  request.set_text(prompt);
  request.set_n(absl::GetFlag(FLAGS_n));
  return Answer(client, request).status();
}

// `argument` is the prompt. Empty: a flag names it.
absl::Status Explain(GenerationClient& client, const std::string& argument) {
  ASSIGN_OR_RETURN(std::string prompt, ReadPrompt());
  if (!argument.empty() && !prompt.empty()) {
    return absl::InvalidArgumentError(
        "there are two prompts; use the argument, --prompt or --prompt_file. Example: bastionctl "
        "explain \"def f(\"");
  }
  if (!argument.empty()) prompt = argument;
  ASSIGN_OR_RETURN(v1::GenerateRequest request, RequestFromFlags());
  request.set_text(prompt);
  RequestExplanation(&request);
  const bool color = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  Explainer explainer(request, {.max_nodes = absl::GetFlag(FLAGS_tree_nodes), .color = color},
                      &std::cout);
  RETURN_IF_ERROR(client.Generate(request, [&](const v1::GenerateResponse& event) {
    explainer.Print(event);
    return std::cout.good();
  }));
  const std::string file = absl::GetFlag(FLAGS_html);
  if (file.empty()) return absl::OkStatus();
  absl::BitGen bits;
  const std::string nonce =
      absl::StrFormat("%016x%016x", absl::Uniform<uint64_t>(bits), absl::Uniform<uint64_t>(bits));
  RETURN_IF_ERROR(WriteFile(file, ExplainPage(explainer.explanation(), nonce)));
  std::cout << "\n" << file << ": open it in a browser\n";
  return absl::OkStatus();
}

absl::Status Chat(GenerationClient& client) {
  ASSIGN_OR_RETURN(v1::GenerateRequest request, RequestFromFlags());
  v1::ChatMessages& chat = *request.mutable_chat();
  const std::string arguments = absl::GetFlag(FLAGS_template_args);
  if (!arguments.empty() &&
      !nlohmann::json::parse(arguments, nullptr, /*allow_exceptions=*/false).is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--template_args is ", arguments, "; it must be a JSON object"));
  }
  chat.set_template_args_json(arguments);
  const auto say = [&](const std::string& role, const std::string& content) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(content);
  };
  if (!absl::GetFlag(FLAGS_system).empty()) say("system", absl::GetFlag(FLAGS_system));
  const bool terminal = isatty(STDIN_FILENO) == 1;
  for (std::string line; (terminal && std::cerr << "> ", std::getline(std::cin, line));) {
    if (line.empty()) continue;
    say("user", line);
    ASSIGN_OR_RETURN(const std::string answer, Answer(client, request));
    say("assistant", answer);
  }
  return absl::OkStatus();
}

absl::Status Models(GenerationClient& client) {
  ASSIGN_OR_RETURN(const v1::ListModelsResponse models, client.ListModels());
  std::cout << ModelTable(models);
  return absl::OkStatus();
}

bool IsDenied(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

absl::Status Health(GenerationClient& client) {
  RETURN_IF_ERROR(client.CheckHealth());
  std::cout << "SERVING";
  const absl::StatusOr<v1::GetServerInfoResponse> info = client.GetServerInfo();
  if (info.ok()) {
    std::cout << "  version " << info->version() << "  policy " << info->default_policy()
              << "  running " << info->running_requests() << "  waiting "
              << info->waiting_requests();
    if (info->audited_tokens() > 0) {
      std::cout << "  audited tokens " << info->audited_tokens() << ", mismatches "
                << info->audit_mismatches();
    }
  } else if (!absl::IsUnimplemented(info.status()) && !IsDenied(info.status())) {
    // Only the orchestrator has this call, and only some callers may make it.
    return info.status();
  }
  std::cout << "\n";
  return absl::OkStatus();
}

absl::Status SaveTimeline() {
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const std::string file = absl::GetFlag(FLAGS_o);
  if (file.empty()) {
    return absl::InvalidArgumentError(
        "-o is missing: the file for the timeline. Example: bastionctl timeline --seconds 5 -o "
        "t.json");
  }
  if (!(seconds > 0 && seconds <= 60)) {
    return absl::InvalidArgumentError(absl::StrCat("--seconds is ", seconds,
                                                   "; use more than 0 and at most 60. Example: "
                                                   "bastionctl timeline --seconds 5 -o t.json"));
  }
  InspectionClient client(absl::GetFlag(FLAGS_endpoint));
  // What happens from now on, not what happened before.
  absl::SleepFor(absl::Seconds(seconds));
  ASSIGN_OR_RETURN(const v1::GetTimelineResponse timelines,
                   client.GetTimeline(absl::Seconds(seconds)));
  for (const v1::ServiceTimeline& timeline : timelines.services()) {
    if (!timeline.error().empty()) {
      std::cerr << "no timeline of the " << timeline.service() << ": " << timeline.error() << "\n";
    }
  }
  RETURN_IF_ERROR(WriteFile(file, ChromeTrace(timelines)));
  std::cout << file << ": open it in ui.perfetto.dev or chrome://tracing\n";
  return absl::OkStatus();
}

absl::Status Run(const std::vector<char*>& arguments) {
  const std::string command = arguments.size() >= 2 ? arguments[1] : "";
  if (arguments.size() > (command == "explain" ? 3 : 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected one command, got ", arguments.size() - 1,
                     " arguments; pass the prompt with --prompt. Example: bastionctl ", kExample));
  }
  GenerationClient client(absl::GetFlag(FLAGS_endpoint));
  if (command == "generate") return Generate(client);
  if (command == "explain") return Explain(client, arguments.size() == 3 ? arguments[2] : "");
  if (command == "chat") return Chat(client);
  if (command == "models") return Models(client);
  if (command == "health") return Health(client);
  if (command == "timeline") return SaveTimeline();
  return absl::InvalidArgumentError(
      absl::StrCat(command.empty() ? "the command is missing"
                                   : absl::StrCat("unknown command \"", command, "\""),
                   "; the commands are generate, explain, chat, models, health, timeline, doctor "
                   "and verify-exactness. "
                   "Example: bastionctl ",
                   kExample));
}

// Replaces this process with the program `name` in the same folder. Returns only if that fails.
int ExecSibling(const std::string& name, char** arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = (self.parent_path() / name).string();
  arguments[0] = program.data();
  execv(program.c_str(), arguments);
  std::cerr << "bastionctl: cannot run " << program << ": " << std::strerror(errno) << "\n";
  return 1;
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  // Check this before parsing flags, because they belong to the other programs.
  if (argc > 1 && std::strcmp(argv[1], "verify-exactness") == 0) {
    return bastion::ExecSibling("bastion-verify-exactness", argv + 1);
  }
  if (argc > 1 && std::strcmp(argv[1], "doctor") == 0) {
    return bastion::ExecSibling("bastion-doctor", argv + 1);
  }
  const bastion::ProgramInfo info = {
      .summary = "Talks to running bastion services.",
      .usage = "generate|explain|chat|models|health|timeline|doctor|verify-exactness [flags]",
      .example = bastion::kExample,
      .groups = {{"Connection", {"endpoint ADDRESS"}},
                 {"Prompt (generate, explain, chat)",
                  {"prompt TEXT", "prompt_file FILE", "system TEXT", "template_args JSON",
                   "cache_salt SALT"}},
                 {"Answer",
                  {"n N", "max_new_tokens N", "stop LIST", "json_schema SCHEMA", "regex REGEX",
                   "grammar GRAMMAR", "stats"}},
                 {"Sampling", {"temperature T", "seed N", "sampling LIST"}},
                 {"Speculation", {"policy POLICY"}},
                 {"Explain", {"tree_nodes N", "html FILE"}},
                 {"Timeline", {"seconds N", "o FILE"}}},
      .notes = "doctor and verify-exactness have their own flags: bastionctl doctor --help"};
  return bastion::RunProgram(argc, argv, info, bastion::Run);
}
