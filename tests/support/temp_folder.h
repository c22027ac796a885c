// TempFolder: a folder for the files and sockets of one test.
#ifndef BASTION_TESTS_SUPPORT_TEMP_FOLDER_H_
#define BASTION_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <string>
#include <string_view>

namespace bastion::testing {

// A new folder under the system's temporary folder. The destructor removes it with its files.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string File(std::string_view name) const;
  void Write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_TEMP_FOLDER_H_
