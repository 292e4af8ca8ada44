// docs/reference says what the program declares now.
#include <catch2/catch.hpp>
#include <set>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::reference_test {

namespace fs = std::filesystem;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the pages of the reference are as the program writes them", "[cli][docs]") {
  const TemporaryFolder folder;
  const auto written = run(folder.path(), {"reference", "--output", "reference"});
  INFO(written.errors);
  REQUIRE(written.status == 0);
  const auto here = fs::path(SOURCE_DIR) / "docs/reference";
  REQUIRE(names_in(folder / "reference") == names_in(here));
  for (const auto& name : names_in(here)) {
    INFO("composer reference --output docs/reference writes another docs/reference/" << name);
    CHECK((text_of(here / name) == text_of(folder / "reference" / name)));
  }
}

}  // namespace composer::reference_test
