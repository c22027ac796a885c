// The public API must stay compatible: clients are built from older versions of bastion/v1. The
// file public_api.txt lists every service, method, message, field and enum value of it. A line of
// the file that no longer holds is a breaking change. New lines are additions and allowed.
//
// The test writes the current list to public_api.txt in its build folder. After an addition:
//   ctest --preset release -R public_api_test
//   cp build/release/tests/conformance/public_api.txt tests/conformance/
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bastion/v1/error_details.pb.h"
#include "bastion/v1/generation.pb.h"
#include "bastion/v1/inspection.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::ServiceDescriptor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Lines = std::set<std::string>;

std::string TypeOf(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

void Describe(const EnumDescriptor& type, Lines& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines.insert(absl::StrCat("value ", type.full_name(), " ", type.value(i)->number(), " ",
                              type.value(i)->name()));
  }
}

void Describe(const Descriptor& message, Lines& lines) {
  lines.insert(absl::StrCat("message ", message.full_name()));
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const char* kind = field.is_repeated()                        ? "repeated "
                       : field.real_containing_oneof() != nullptr ? "oneof "
                       : field.has_presence()                     ? "optional "
                                                                  : "";
    lines.insert(absl::StrCat("field ", message.full_name(), " ", field.number(), " ", kind,
                              TypeOf(field), " ", field.name()));
  }
  for (int i = 0; i < message.nested_type_count(); ++i) Describe(*message.nested_type(i), lines);
  for (int i = 0; i < message.enum_type_count(); ++i) Describe(*message.enum_type(i), lines);
}

void Describe(const ServiceDescriptor& service, Lines& lines) {
  for (int i = 0; i < service.method_count(); ++i) {
    const auto& method = *service.method(i);
    lines.insert(absl::StrCat(
        "method ", method.full_name(), " ", method.client_streaming() ? "stream " : "",
        method.input_type()->full_name(), " -> ", method.server_streaming() ? "stream " : "",
        method.output_type()->full_name()));
  }
}

Lines Describe(const FileDescriptor& file) {
  Lines lines;
  for (int i = 0; i < file.message_type_count(); ++i) Describe(*file.message_type(i), lines);
  for (int i = 0; i < file.enum_type_count(); ++i) Describe(*file.enum_type(i), lines);
  for (int i = 0; i < file.service_count(); ++i) Describe(*file.service(i), lines);
  return lines;
}

Lines CurrentApi() {
  Lines lines;
  for (const Descriptor* message :
       {v1::GenerateRequest::descriptor(), v1::ErrorStatus::descriptor(),
        v1::GetTimelineRequest::descriptor()}) {
    lines.merge(Describe(*message->file()));
  }
  return lines;
}

// The lines of `golden` that are not in `current`.
std::vector<std::string> Broken(const Lines& golden, const Lines& current) {
  std::vector<std::string> broken;
  std::set_difference(golden.begin(), golden.end(), current.begin(), current.end(),
                      std::back_inserter(broken));
  return broken;
}

TEST(PublicApiTest, NothingWasRemovedOrChanged) {
  std::ifstream file(BASTION_SOURCE_DIR "/tests/conformance/public_api.txt");
  Lines golden;
  for (std::string line; std::getline(file, line);) golden.insert(line);
  const Lines current = CurrentApi();
  std::ofstream("public_api.txt") << absl::StrJoin(current, "\n") << "\n";
  ASSERT_GT(golden.size(), 100u);
  EXPECT_THAT(Broken(golden, current), IsEmpty())
      << "clients that were built from the listed version would break. Keep the old fields, and "
         "add new ones with new numbers";
  for (const std::string& added : Broken(current, golden)) {
    std::cout << "not in tests/conformance/public_api.txt yet: " << added << "\n";
  }
}

// ---- the check itself ----

Lines DescribeMessage(const FileDescriptorProto& file) {
  DescriptorPool pool;
  const FileDescriptor* built = pool.BuildFile(file);
  return Describe(*built);
}

class PublicApiCheckTest : public ::testing::Test {
 protected:
  PublicApiCheckTest() {
    file_.set_name("test.proto");
    file_.set_package("p");
    file_.set_syntax("proto3");
    auto& message = *file_.add_message_type();
    message.set_name("M");
    auto& field = *message.add_field();
    field.set_name("f");
    field.set_number(1);
    field.set_type(google::protobuf::FieldDescriptorProto::TYPE_INT32);
    field.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
    golden_ = DescribeMessage(file_);
  }
  google::protobuf::FieldDescriptorProto& field() {
    return *file_.mutable_message_type(0)->mutable_field(0);
  }
  std::vector<std::string> Broken() { return bastion::Broken(golden_, DescribeMessage(file_)); }

  FileDescriptorProto file_;
  Lines golden_;
};

TEST_F(PublicApiCheckTest, AnAdditionIsAllowed) {
  auto& added = *file_.mutable_message_type(0)->add_field();
  added = field();
  added.set_name("g");
  added.set_number(2);
  EXPECT_THAT(Broken(), IsEmpty());
}

TEST_F(PublicApiCheckTest, RenumberingIsFound) {
  field().set_number(2);
  EXPECT_THAT(Broken(), ElementsAre("field p.M 1 int32 f"));
}

TEST_F(PublicApiCheckTest, AChangeOfTypeIsFound) {
  field().set_type(google::protobuf::FieldDescriptorProto::TYPE_STRING);
  EXPECT_THAT(Broken(), ElementsAre("field p.M 1 int32 f"));
}

TEST_F(PublicApiCheckTest, AChangeToAListIsFound) {
  field().set_label(google::protobuf::FieldDescriptorProto::LABEL_REPEATED);
  EXPECT_THAT(Broken(), ElementsAre("field p.M 1 int32 f"));
}

TEST_F(PublicApiCheckTest, RemovalsAreFound) {
  file_.mutable_message_type(0)->clear_field();
  EXPECT_THAT(Broken(), ElementsAre("field p.M 1 int32 f"));
  file_.clear_message_type();
  EXPECT_THAT(Broken(), ElementsAre("field p.M 1 int32 f", "message p.M"));
}

}  // namespace
}  // namespace bastion
