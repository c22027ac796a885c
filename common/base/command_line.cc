#include "common/base/command_line.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr size_t kLineWidth = 100;
constexpr size_t kTextColumn = 30;

using Flags = std::map<absl::string_view, absl::CommandLineFlag*>;

// The flags that this project defines. Excludes those of absl.
const Flags& ProjectFlags() {
  static const Flags* const flags = [] {
    auto* found = new Flags;
    for (const auto& [name, flag] : absl::GetAllFlags()) {
      if (!absl::StrContains(flag->Filename(), "absl/flags/")) found->emplace(name, flag);
    }
    return found;
  }();
  return *flags;
}

// Number of edits (insertions, deletions, replacements) that turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

absl::Status UnknownFlag(absl::string_view name) {
  absl::string_view nearest;
  size_t smallest = std::max<size_t>(2, name.size() / 3) + 1;
  for (const auto& [known, flag] : ProjectFlags()) {
    const size_t distance = EditDistance(name, known);
    if (distance < smallest) {
      smallest = distance;
      nearest = known;
    }
  }
  const std::string hint = nearest.empty() ? "" : absl::StrCat("did you mean --", nearest, "? ");
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name, "; ", hint, "--help lists all flags"));
}

// Appends `text` at column kTextColumn. Breaks lines at spaces.
void AppendWrapped(std::string& out, absl::string_view text) {
  size_t column = kTextColumn;
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!first && column + 1 + word.size() > kLineWidth) {
      absl::StrAppend(&out, "\n", std::string(kTextColumn, ' '));
      column = kTextColumn;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
    first = false;
  }
  out += '\n';
}

void AppendFlag(std::string& out, const absl::CommandLineFlag& flag, absl::string_view placeholder,
                bool required) {
  std::string left = absl::StrCat("  --", flag.Name());
  if (!placeholder.empty()) absl::StrAppend(&left, " ", placeholder);
  left.resize(std::max(left.size() + 1, kTextColumn), ' ');
  const std::string value = flag.DefaultValue();
  const std::string note = required ? " Required."
                           : value.empty() || value == "\"\""
                               ? ""
                               : absl::StrCat(" Default: ", value, ".");
  out += left;
  if (left.size() > kTextColumn) absl::StrAppend(&out, "\n", std::string(kTextColumn, ' '));
  AppendWrapped(out, absl::StrCat(flag.Help(), note));
}

bool IsRequired(const ProgramInfo& info, absl::string_view name) {
  return std::any_of(info.required.begin(), info.required.end(),
                     [&](const char* required) { return name == required; });
}

// Old names of flags, and their names today.
constexpr std::pair<absl::string_view, absl::string_view> kRenamedFlags[] = {
    {"calibration_limit", "profile_limit"},
    {"calibration_table", "latency_profile"},
    {"drafter_dtype", "drafter_weights"}};

}  // namespace

void UnderscoreFlagNames(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) return;
    if (std::strncmp(argv[i], "--", 2) != 0) continue;
    for (char* c = argv[i] + 2; *c != '\0' && *c != '='; ++c) {
      if (*c == '-') *c = '_';
    }
  }
}

void RenameOldFlags(int argc, char** argv) {
  static auto& renamed = *new std::deque<std::string>;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--") return;
    if (!absl::StartsWith(argument, "--")) continue;
    const size_t end = argument.find('=');
    for (const auto& [old_name, name] : kRenamedFlags) {
      if (argument.substr(2, end - 2) != old_name || absl::FindCommandLineFlag(name) == nullptr) {
        continue;
      }
      LOG(WARNING) << "--" << old_name << " is now --" << name
                   << "; the old name goes with the next release";
      renamed.push_back(absl::StrCat("--", name, argument.substr(std::min(end, argument.size()))));
      argv[i] = renamed.back().data();
      break;
    }
  }
}

absl::Status CheckFlagNames(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--") break;
    if (argument.size() < 2 || argument[0] != '-') continue;
    argument.remove_prefix(argument[1] == '-' ? 2 : 1);
    const absl::string_view name = argument.substr(0, argument.find('='));
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr && absl::StartsWith(name, "no")) {
      flag = absl::FindCommandLineFlag(name.substr(2));
      if (flag != nullptr && !flag->IsOfType<bool>()) flag = nullptr;
    }
    if (flag == nullptr) return UnknownFlag(name);
    // Skip the next argument: it is the value of this flag.
    if (!flag->IsOfType<bool>() && !absl::StrContains(argument, '=')) ++i;
  }
  return absl::OkStatus();
}

absl::Status CheckRequiredFlags(const std::string& program, const ProgramInfo& info) {
  for (const char* const name : info.required) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag != nullptr && !flag->CurrentValue().empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is missing. Example: ", program, " ", info.example));
  }
  return absl::OkStatus();
}

absl::Status CheckAddressFlags(const ProgramInfo& info) {
  for (const FlagGroup& group : info.groups) {
    for (const absl::string_view entry : group.flags) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, ' ');
      if (parts.second != "ADDRESS" && parts.second != "ADDRESSES") continue;
      const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(parts.first);
      if (flag == nullptr) continue;
      RETURN_IF_ERROR(Annotate(CheckPorts(flag->CurrentValue()), absl::StrCat("--", parts.first)));
    }
  }
  return absl::OkStatus();
}

std::string HelpText(const std::string& program, const ProgramInfo& info) {
  std::string text = absl::StrCat(info.summary, "\n\nUsage:   ", program, " ", info.usage,
                                  "\nExample: ", program, " ", info.example, "\n");
  Flags left = ProjectFlags();
  for (const FlagGroup& group : info.groups) {
    absl::StrAppend(&text, "\n", group.title, "\n");
    for (const absl::string_view entry : group.flags) {
      const auto split = std::min(entry.find(' '), entry.size());
      const auto flag = left.find(entry.substr(0, split));
      if (flag == left.end()) continue;
      AppendFlag(text, *flag->second, entry.substr(std::min(split + 1, entry.size())),
                 IsRequired(info, flag->first));
      left.erase(flag);
    }
  }
  if (!left.empty()) text += "\nOther\n";
  for (const auto& [name, flag] : left) AppendFlag(text, *flag, "", IsRequired(info, name));
  if (info.notes != nullptr) absl::StrAppend(&text, "\n", info.notes, "\n");
  return text;
}

bool HasArgument(int argc, char** argv, const char* flag, const char* alias) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], flag) == 0 || std::strcmp(argv[i], alias) == 0) return true;
  }
  return false;
}

}  // namespace bastion
