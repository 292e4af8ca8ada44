// The values under the pointer, and runs that the legend switches off. The page is whole without it.
"use strict";
(() => {
  const svg = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");

  const figure = (value, unit) => {
    if (value === null) return "not finite";
    const number = value / unit.size;
    const text = Math.abs(number) >= 1e4 ? Math.round(number).toLocaleString("en") : String(Number(number.toPrecision(5)));
    return unit.name ? text + " " + unit.name : text;
  };

  const duration = (seconds) => {
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    return hours ? hours + " h " + minutes + " min" : minutes ? minutes + " min " + Math.floor(seconds % 60) + " s" : seconds.toFixed(1) + " s";
  };

  const place = (svg, value) => {
    const [low, high] = JSON.parse(svg.dataset.values), [, , top, bottom] = svg.dataset.field.split(" ").map(Number);
    const share = svg.dataset.scale === "linear" ? (value - low) / (high - low) : Math.log(value / low) / Math.log(high / low);
    return bottom - Math.min(Math.max(share, 0), 1) * (bottom - top);
  };

  const nearest = (numbers, wanted) => {
    let low = 0, high = numbers.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low > 0 && wanted - numbers[low - 1] < numbers[low] - wanted ? low - 1 : low;
  };

  const clear = (drawing) => {
    drawing.querySelector(".hover")?.remove();
    tip.hidden = true;
  };

  const show = (drawing, numbers, event) => {
    clear(drawing);
    const box = drawing.getBoundingClientRect(), [, , width] = drawing.getAttribute("viewBox").split(" ").map(Number);
    const [left, right, top, bottom] = drawing.dataset.field.split(" ").map(Number);
    const [from, to] = JSON.parse(drawing.dataset.course), unit = Number(drawing.dataset.unit), against = drawing.dataset.against;
    const across = (value) => left + Math.min(Math.max((value / unit - from) / (to - from), 0), 1) * (right - left);
    const x = Math.min(Math.max((event.clientX - box.left) / box.width * width, left), right);
    const wanted = (from + (x - left) / (right - left) * (to - from)) * unit;

    const hover = drawing.appendChild(document.createElementNS(svg, "g"));
    hover.setAttribute("class", "hover");
    const rows = [];
    let at = null;
    numbers.lines.forEach((line, index) => {
      if (drawing.querySelectorAll(":scope > g:not(.hover)")[index]?.classList.contains("off")) return;
      const i = nearest(line[against], wanted), value = line.value[i];
      if (at === null || Math.abs(line[against][i] - wanted) < Math.abs(at - wanted)) at = line[against][i];
      const row = document.createElement("div");
      row.className = "c" + line.color;
      row.append(document.createElement("i"), Object.assign(document.createElement("span"), { textContent: line.name }),
        Object.assign(document.createElement("b"), { textContent: figure(value, numbers.unit) }));
      rows.push(row);
      if (value === null) return;
      const dot = hover.appendChild(document.createElementNS(svg, "circle"));
      dot.setAttribute("cx", across(line[against][i]));
      dot.setAttribute("cy", place(drawing, value));
      dot.setAttribute("r", 3.5);
      dot.setAttribute("class", "c" + line.color);
    });
    if (at === null) return;
    const pointer = document.createElementNS(svg, "path");
    pointer.setAttribute("class", "pointer");
    pointer.setAttribute("d", `M${across(at)} ${top}V${bottom}`);
    hover.prepend(pointer);
    const what = { batch: "step ", sample: "image ", seconds: "" }[against];
    const where = document.createElement("p");
    where.textContent = what + (against === "seconds" ? duration(at) : at.toLocaleString("en"));
    tip.replaceChildren(where, ...rows);
    tip.hidden = false;
    const beside = event.pageX + 16 + tip.offsetWidth > scrollX + document.documentElement.clientWidth;
    tip.style.left = (beside ? event.pageX - 16 - tip.offsetWidth : event.pageX + 16) + "px";
    tip.style.top = event.pageY + 14 + "px";
  };

  const folded = () => document.querySelectorAll("details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...folded()]; for (const one of opened) one.open = true; });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });

  for (const chart of document.querySelectorAll(".chart")) {
    const data = chart.querySelector("script.data");
    if (!data) continue;
    const numbers = JSON.parse(data.textContent);
    for (const drawing of chart.querySelectorAll("svg")) {
      drawing.addEventListener("pointermove", (event) => show(drawing, numbers, event));
      drawing.addEventListener("pointerleave", () => clear(drawing));
    }
    chart.querySelectorAll(".legend li").forEach((item, index) => {
      item.style.cursor = "pointer";
      item.addEventListener("click", () => {
        const off = item.classList.toggle("off");
        for (const drawing of chart.querySelectorAll("svg"))
          drawing.querySelectorAll(":scope > g:not(.hover)")[index]?.classList.toggle("off", off);
      });
    });
  }
})();
