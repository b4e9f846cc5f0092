"use strict";
(function () {
    const tip = document.createElement("div");
    tip.id = "tip";
    tip.hidden = true;
    document.body.append(tip);

    /* Lines of text beside the pointer, inside the window. */
    function show(event, lines) {
        tip.replaceChildren(...lines.map(function (text) {
            const line = document.createElement("div");
            line.textContent = text;
            return line;
        }));
        tip.hidden = false;
        const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
        tip.style.left = Math.max(4, left) + scrollX + "px";
        tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)) + scrollY + "px";
    }
    function hide() { tip.hidden = true; }
    function digits(x) { return x === null ? "none" : Math.abs(x) >= 1e4 ? Math.round(x).toLocaleString("en") : String(+x.toPrecision(5)); }
    function dataOf(element) { return JSON.parse(element.querySelector(":scope > script").textContent); }

    /* The point whose middle is nearest to a step. */
    function nearest(points, step) {
        let low = 0, high = points.length - 1;
        while (high - low > 1) {
            const middle = low + high >> 1;
            if ((points[middle][0] + points[middle][1]) / 2 < step) low = middle; else high = middle;
        }
        const far = function (k) { return Math.abs((points[k][0] + points[k][1]) / 2 - step); };
        return points.length === 0 ? null : points[far(low) <= far(high) ? low : high];
    }

    function chart(figure) {
        const data = dataOf(figure), plot = figure.querySelector(".plot"), cursor = document.createElement("div");
        cursor.className = "cursor";
        cursor.hidden = true;
        plot.append(cursor);
        plot.addEventListener("pointermove", function (event) {
            const box = plot.getBoundingClientRect(), width = data.x[1] - data.x[0];
            const at = nearest(data.series[0].points, data.x[0] + (event.clientX - box.left) / box.width * width);
            if (!at) return;
            const step = (at[0] + at[1]) / 2;
            const lines = [at[0] === at[1] ? "step " + at[0] : "steps " + at[0] + " to " + at[1]];
            for (const s of data.series) {
                const p = nearest(s.points, step);
                if (!p || Math.abs((p[0] + p[1]) / 2 - step) > width * 0.015 + (at[1] - at[0])) continue;
                const where = p[0] === at[0] && p[1] === at[1] ? "" : " at step " + p[0];
                const range = p.length > 3 && p[3] !== p[4] ? " (" + digits(p[3]) + " to " + digits(p[4]) + ")" : "";
                lines.push((data.series.length > 1 ? s.name + where + ": " : "") + digits(p[2]) + range + (data.unit ? " " + data.unit : ""));
            }
            cursor.style.left = (step - data.x[0]) / width * 100 + "%";
            cursor.hidden = false;
            show(event, lines);
        });
        plot.addEventListener("pointerleave", function () { cursor.hidden = true; hide(); });
    }

    const kinds = ["F", "B", "W", "BW", "flush"], WIDTH = 100000;
    function time(us) { return us >= 1e6 ? +(us / 1e6).toPrecision(4) + " s" : us >= 1e3 ? +(us / 1e3).toPrecision(4) + " ms" : +us.toPrecision(4) + " µs"; }

    /* The last box of a row that starts before `us`; -1 when there is none. Five numbers per box. */
    function boxAt(row, us) {
        let low = 0, high = row.length / 5;
        while (low < high) {
            const middle = low + high >> 1;
            if (row[middle * 5 + 3] <= us) low = middle + 1; else high = middle;
        }
        return low - 1;
    }

    function timeline(root) {
        const end = +root.dataset.end, panels = [...root.querySelectorAll(".panel")], ticks = root.querySelector(".ticks");
        let from = 0, to = end;
        const rowsOf = new Map(panels.map(function (p) { return [p, dataOf(p)]; }));

        function number(panel, width) {
            const rows = rowsOf.get(panel), numbers = panel.querySelector(".numbers"), out = [];
            let wide = 0, all = 0;
            for (const row of rows) {
                for (let k = Math.max(0, boxAt(row, from)); k * 5 < row.length && row[k * 5 + 3] < to; k++, all++) wide += row[k * 5 + 4] / (to - from) * width > 5;
            }
            panel.classList.toggle("edges", wide * 2 > all); /* lines between boxes would leave nothing of narrow ones */
            if (numbers.parentNode.clientHeight / panel.style.getPropertyValue("--rows") < 16) return;
            rows.forEach(function (row, r) {
                for (let k = Math.max(0, boxAt(row, from)); k * 5 < row.length && row[k * 5 + 3] < to && out.length < 3000; k++) {
                    const a = Math.max(row[k * 5 + 3], from), b = Math.min(row[k * 5 + 3] + row[k * 5 + 4], to), text = String(row[k * 5 + 2]);
                    if (row[k * 5] > 3 || (b - a) / (to - from) * width < 6.2 * text.length + 2) continue;
                    const span = document.createElement("span");
                    span.textContent = text;
                    span.className = "k" + kinds[row[k * 5]];
                    span.style.left = ((a + b) / 2 - from) / (to - from) * 100 + "%";
                    span.style.top = (r + 0.5) / rows.length * 100 + "%";
                    out.push(span);
                }
            });
            numbers.replaceChildren(...out);
        }
        function axis() {
            const range = (to - from) / 1e3, ten = 10 ** Math.floor(Math.log10(range / 8)), out = [];
            const step = [1, 2, 2.5, 5, 10].map(function (k) { return k * ten; }).find(function (s) { return range / s <= 8; });
            for (let k = Math.ceil(from / 1e3 / step); k * step <= to / 1e3 * (1 + 1e-9); k++) {
                const span = document.createElement("span");
                span.textContent = String(+(k * step).toPrecision(8));
                span.style.left = (k * step * 1e3 - from) / (to - from) * 100 + "%";
                out.push(span);
            }
            ticks.replaceChildren(...out);
        }
        /* printed: the page becomes narrower without telling how much. */
        function draw(printed) {
            for (const panel of panels) {
                const svg = panel.querySelector("svg"), box = svg.viewBox.baseVal;
                box.x = from / end * WIDTH;
                box.width = (to - from) / end * WIDTH;
                number(panel, panel.querySelector(".canvas").clientWidth * (printed === true ? 0.55 : 1));
            }
            axis();
        }
        function view(a, b) {
            const range = Math.min(end, Math.max(b - a, end * 1e-4));
            from = Math.max(0, Math.min(a, end - range));
            to = from + range;
            draw();
        }
        function zoom(by, at) { view(at - (at - from) * by, at + (to - at) * by); }

        for (const panel of panels) {
            const canvas = panel.querySelector(".canvas"), rows = rowsOf.get(panel);
            let grabbed = null;
            const timeAt = function (event) {
                const box = canvas.getBoundingClientRect();
                return from + (event.clientX - box.left) / box.width * (to - from);
            };
            canvas.addEventListener("wheel", function (event) {
                if (!event.ctrlKey && !event.shiftKey && from === 0 && to === end && event.deltaY > 0) return;
                event.preventDefault();
                zoom(event.deltaY < 0 ? 0.8 : 1.25, timeAt(event));
            }, { passive: false });
            canvas.addEventListener("pointerdown", function (event) {
                if (event.pointerType === "touch" && from === 0 && to === end) return;
                grabbed = { x: event.clientX, from: from, to: to };
                canvas.setPointerCapture(event.pointerId);
            });
            canvas.addEventListener("pointerup", function () { grabbed = null; });
            canvas.addEventListener("pointercancel", function () { grabbed = null; });
            canvas.addEventListener("dblclick", function () { view(0, end); });
            canvas.addEventListener("pointermove", function (event) {
                const box = canvas.getBoundingClientRect();
                if (grabbed) {
                    const by = (grabbed.x - event.clientX) / box.width * (grabbed.to - grabbed.from);
                    return view(grabbed.from + by, grabbed.to + by);
                }
                const rank = Math.floor((event.clientY - box.top) / box.height * +panel.style.getPropertyValue("--rows")), row = rows[rank], us = timeAt(event);
                if (!row) return hide();
                const k = boxAt(row, us);
                if (k < 0 || us > row[k * 5 + 3] + row[k * 5 + 4]) return show(event, ["rank " + rank, "at " + time(us) + ": not computing"]);
                const what = row[k * 5] > 3 ? kinds[row[k * 5]] : kinds[row[k * 5]] + ", micro-batch " + row[k * 5 + 2] + ", chunk " + row[k * 5 + 1];
                show(event, ["rank " + rank + ": " + what, "takes " + time(row[k * 5 + 4]) + ", from " + time(row[k * 5 + 3])]);
            });
            canvas.addEventListener("pointerleave", hide);
        }
        root.querySelectorAll("[data-zoom]").forEach(function (button) {
            button.addEventListener("click", function () { +button.dataset.zoom ? zoom(+button.dataset.zoom, (from + to) / 2) : view(0, end); });
        });
        addEventListener("resize", draw);
        addEventListener("beforeprint", function () { draw(true); });
        addEventListener("afterprint", draw);
        draw();
    }

    document.querySelectorAll("figure.chart").forEach(chart);
    document.querySelectorAll(".panels").forEach(timeline);
    addEventListener("scroll", hide, { passive: true });
})();
