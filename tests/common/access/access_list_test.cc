#include "common/access/access_list.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kList[] =
    "# the callers\n"
    "team-a   token:aaaaaaaaaaaaaaaa   generate\n"
    "\n"
    "ops\ttoken:oooooooooooooooo generate,inspect  # operators\n"
    "orchestrator certificate:orchestrator.internal draft,verify\n";

class AccessListTest : public ::testing::Test {
 protected:
  std::unique_ptr<AccessList> Load(const std::string& content) {
    folder_.Write("access", content);
    auto list = AccessList::Load(folder_.File("access"));
    EXPECT_TRUE(list.ok()) << list.status();
    return *std::move(list);
  }
  // The error of a list that must be refused.
  absl::Status Refusal(const std::string& content) {
    folder_.Write("access", content);
    return AccessList::Load(folder_.File("access")).status();
  }

  testing::TempFolder folder_;
};

TEST_F(AccessListTest, ATokenProvesANameWithItsRights) {
  const auto list = Load(kList);
  EXPECT_EQ(*list->Authorize({"Bearer aaaaaaaaaaaaaaaa", {}}, Right::kGenerate), "team-a");
  EXPECT_EQ(*list->Authorize({"bearer  oooooooooooooooo", {}}, Right::kInspect), "ops");
  const auto refused = list->Authorize({"Bearer aaaaaaaaaaaaaaaa", {}}, Right::kInspect);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr("inspect"));
}

TEST_F(AccessListTest, ABrowserSendsTheTokenAsPassword) {
  const auto list = Load(kList);
  const std::string basic = absl::StrCat("Basic ", absl::Base64Escape("anyone:oooooooooooooooo"));
  EXPECT_EQ(*list->Authorize({basic, {}}, Right::kInspect), "ops");
}

TEST_F(AccessListTest, ACertificateProvesItsNames) {
  const auto list = Load(kList);
  EXPECT_EQ(*list->Authorize({"", {"x", "orchestrator.internal"}}, Right::kVerify), "orchestrator");
  EXPECT_TRUE(absl::IsPermissionDenied(
      list->Authorize({"", {"orchestrator.internal"}}, Right::kGenerate).status()));
}

TEST_F(AccessListTest, UnknownProofsAreRefused) {
  const auto list = Load(kList);
  for (const char* header : {"", "Bearer", "Bearer ", "Bearer aaaaaaaaaaaaaaab", "Basic !!!!",
                             "Basic b29vbw==", "aaaaaaaaaaaaaaaa", "Digest aaaaaaaaaaaaaaaa",
                             "Bearer orchestrator.internal"}) {
    EXPECT_TRUE(absl::IsUnauthenticated(list->Authorize({header, {}}, Right::kGenerate).status()))
        << header;
  }
  EXPECT_TRUE(absl::IsUnauthenticated(list->Authorize({"", {"other"}}, Right::kVerify).status()));
  // A caller with a certificate has no token: the digest of nothing must not match.
  EXPECT_TRUE(absl::IsUnauthenticated(
      list->Authorize({std::string("Bearer \0", 8), {}}, Right::kVerify).status()));
}

TEST_F(AccessListTest, ErrorsNameTheLineAndNoToken) {
  for (const char* line : {"a token:short generate", "a token:0123456789abcdef", "a b generate",
                           "a token:0123456789abcdef everything", "a certificate: generate",
                           "a token:0123456789abcdef generate more"}) {
    const absl::Status refused = Refusal(absl::StrCat("\n", line, "\n"));
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << line;
    EXPECT_THAT(refused.message(), HasSubstr("line 2"));
    EXPECT_THAT(refused.message(), Not(HasSubstr("0123456789abcdef")));
  }
  EXPECT_TRUE(absl::IsNotFound(AccessList::Load(folder_.File("none")).status()));
}

TEST_F(AccessListTest, AFolderIsNoEmptyList) {
  const absl::Status folder = AccessList::Load(folder_.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(folder)) << folder;
}

TEST_F(AccessListTest, AChangedFileIsReadAgainAndABadOneIsIgnored) {
  const auto list = Load(kList);
  const auto team = [&] {
    return list->Authorize({"Bearer aaaaaaaaaaaaaaaa", {}}, Right::kGenerate).ok();
  };
  const auto becomes = [&](bool allowed) {
    for (int i = 0; i < 50 && team() != allowed; ++i) absl::SleepFor(absl::Milliseconds(100));
    return team() == allowed;
  };
  EXPECT_TRUE(team());
  folder_.Write("access", "nonsense\n");
  absl::SleepFor(1.5 * WatchedFile::kInterval);
  EXPECT_TRUE(team());
  folder_.Write("access", "other token:bbbbbbbbbbbbbbbb generate\n");
  EXPECT_TRUE(becomes(false));
  folder_.Write("access", kList);
  EXPECT_TRUE(becomes(true));
  unlink(folder_.File("access").c_str());
  absl::SleepFor(1.5 * WatchedFile::kInterval);
  EXPECT_TRUE(team());
}

}  // namespace
}  // namespace bastion
