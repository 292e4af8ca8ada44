#include "analysis/trace/trace_diff.h"

#include <catch2/catch.hpp>

#include "analysis/trace/report_section.h"
#include "base/error.h"
#include "tests/analysis/traces.h"

namespace composer::trace_diff_test {
namespace {

/// Steps 4 and 5; in step 4 what `change` adds.
TraceText base_trace() {
  return TraceText()
      .step(4, "0", "100")
      .step(5, "100", "100")
      .operation("aten::add", "10", "2")
      .operation("aten::add", "20", "4")
      .operation("aten::mul", "110", "2")
      .work("void f<int>(int)", "90", "150", "7");  // launched in step 4
}

TEST_CASE("two traces' first steps are compared by name", "[trace]") {
  const TraceFolder control, test;
  control.write("rank0.json", base_trace().of_rank(0));
  test.write("rank0.json", base_trace()
                               .operation("aten::add", "40", "0.5")
                               .operation("aten::new", "50", "1")
                               .of_rank(0));
  const auto diff = diff_traces(control.path(), test.path(), {});
  CHECK(*diff.control.step == 4);
  CHECK(*diff.test.rank == 0);
  const auto row = [&](const std::string& name) {
    for (const auto& each : diff.rows)
      if (each.name == name) return each;
    FAIL(name);
    return DiffRow{};
  };
  CHECK(diff.rows.size() == 4);
  CHECK(row("aten::add").control_count == 2);
  CHECK(row("aten::add").test_count == 3);
  CHECK(row("aten::add").time_change_ns() == 500);
  CHECK(row("aten::add").change() == '+');
  CHECK(row("aten::new").control_count == 0);
  CHECK(row("void f<int>(int)").change() == '=');
  CHECK(row("void f<int>(int)").test_ns == 7000);
  CHECK_THAT(text_of(report_of(diff, 30)), Catch::Contains("aten::new"));

  const auto back = diff_traces(test.path(), control.path(), {});
  CHECK(std::ranges::find(back.rows, '-', &DiffRow::change) != back.rows.end());
}

TEST_CASE("rank, step, device and names are chosen", "[trace]") {
  const TraceFolder folder;
  folder.write("rank0.json", base_trace().of_rank(0));
  folder.write("rank3.json", TraceText().step(4, "0", "100").of_rank(3));
  DiffRequest request;
  request.control.step = 5;
  request.test.rank = 3;
  const auto diff = diff_traces(folder.path(), folder.path(), request);
  REQUIRE(diff.rows.size() == 1);
  CHECK(diff.rows[0].name == "aten::mul");
  CHECK(diff.rows[0].test_count == 0);

  request.as_hta = true;  // which lists the steps' own marks
  const auto marks = diff_traces(folder.path(), folder.path(), request);
  REQUIRE(marks.rows.size() == 3);
  CHECK(marks.rows[0].name == "ProfilerStep#4");
  CHECK(marks.rows[2].name == "aten::mul");
  request.as_hta = false;

  DiffRequest of_device;
  of_device.device = DeviceKind::gpu;
  of_device.short_names = true;
  const auto kernels = diff_traces(folder.path(), folder.path(), of_device);
  REQUIRE(kernels.rows.size() == 1);
  CHECK(kernels.rows[0].name == "f");

  request.control.step = 6;
  CHECK_THROWS_WITH(diff_traces(folder.path(), folder.path(), request),
                    Catch::Contains("has no step 6; there are: 4, 5"));
  request.test.rank = 1;
  request.control = {};
  CHECK_THROWS_WITH(diff_traces(folder.path(), folder.path(), request),
                    Catch::Contains("has no rank 1; there are: 0, 3"));
  const auto unmarked = folder.write("u.json", TraceText().operation("a", "1", "2").array());
  CHECK_THROWS_WITH(diff_traces(unmarked, unmarked, {}), Catch::Contains("marks no steps"));
}

}  // namespace
}  // namespace composer::trace_diff_test
