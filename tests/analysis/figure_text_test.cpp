#include "analysis/figure_text.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace composer::figure_text_test {
namespace {

TEST_CASE("numbers read well", "[figure_text]") {
  CHECK(figure(0.93125) == "0.9313");
  CHECK(figure(0.5) == "0.5");
  CHECK(figure(0) == "0");
  CHECK(figure(12480) == "12,480");
  CHECK(figure(-1234567, 3) == "-1.23M");
  CHECK(figure(0.00012346) == "0.0001235");
  CHECK(figure(1.234e-7) == "1.23e-07");
  CHECK(figure(NAN) == "NaN");
  CHECK(figure(2.5e30) == "2.5e+30");
  CHECK(tick_figure(2e29, 1e30) == "2e+29");
  CHECK(tick_figure(8e11, 1e12) == "8e+11");
  CHECK(figure(96, 9) == "96");
  CHECK(percent_figure(0.0156) == "1.56 %");
  CHECK(percent_figure(0.9314) == "93.1 %");
  CHECK(percent_figure(1) == "100.0 %");
  CHECK(tick_figure(0.00001) == "1e-05");
  CHECK(tick_figure(2500) == "2,500");
  CHECK(tick_figure(12500) == "12.5k");
  CHECK(tick_figure(8000, 10000) == "8k");
  CHECK(tick_figure(0, 10000) == "0");
}

TEST_CASE("what is counted keeps its digits", "[figure_text]") {
  CHECK(count_figure(1281167) == "1,281,167");
  CHECK(counted(1, "epoch") == "1 epoch");
  CHECK(counted(1200, "step") == "1,200 steps");
  CHECK(decimal_figure(-1204.25, 1) == "-1,204.2");
  CHECK(with_counts("resnet_20, 272474 parameters, 2026-11-22 1234") ==
        "resnet_20, 272,474 parameters, 2026-11-22 1234");
}

TEST_CASE("durations and sizes have the units that suit them", "[figure_text]") {
  CHECK(duration_figure(0.0123) == "12.3 ms");
  CHECK(duration_figure(0.0000516) == "51.6 µs");
  CHECK(duration_figure(0) == "0 ms");
  CHECK(duration_figure(7.54) == "7.54 s");
  CHECK(duration_figure(200) == "3 min 20 s");
  CHECK(duration_figure(7500) == "2 h 05 min");
  CHECK(duration_figure(90000) == "1 d 1 h");
  CHECK(bytes_figure(1000) == "1,000 B");
  CHECK(bytes_figure(390684672) == "373 MiB");
}

}  // namespace
}  // namespace composer::figure_text_test
