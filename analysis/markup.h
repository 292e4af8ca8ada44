// HTML and SVG as text, and the page around them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace composer {

/// Text that reads as itself in elements and in attributes.
std::string escaped(std::string_view text);

/// JSON that may stand inside a <script> element: no "</script>" of a name ends it.
std::string script_safe(std::string json);

using Attributes = std::vector<std::pair<std::string_view, std::string>>;

/// <name a="b">inner</name>. The values of attributes are escaped here, `inner` is markup.
std::string element(std::string_view name, const Attributes& attributes, std::string_view inner);
/// <name a="b"/>
std::string element(std::string_view name, const Attributes& attributes);

/// A <script> that holds the JSON, for scripts and other programs. What is not UTF-8 in it is
/// replaced.
std::string data_element(std::string_view key, const std::string& value,
                         const nlohmann::ordered_json& json);

/// A length of a drawing, to a hundredth.
std::string length_text(double length);

/// <path class="css" d="...">
std::string path_element(const std::string& css, const std::string& d);

/// A <text> of a drawing with its anchor at (x, y).
std::string text_at(double x, double y, const std::string& css, std::string_view text);

/// <th scope="row">
std::string row_heading(std::string_view inner);

/// <td class="number">
std::string number_cell(std::string_view inner);

/// A table that scrolls sideways where the page is narrow. head: the cells of its first row; rows:
/// <tr> elements.
std::string wide_table(const std::string& css, std::string_view head, std::string_view rows);

/// A part of the page with a heading; empty where `inner` is.
std::string section(const std::string& id, const std::string& title, const std::string& inner);

/// The whole page, with style and script inside. title: text. main: markup.
std::string page_of(const std::string& title, const std::string& main);

/// The files of analysis/page/, which the build copies into the program.
std::string_view report_style();
std::string_view report_script();
std::string_view trace_style();

}  // namespace composer
