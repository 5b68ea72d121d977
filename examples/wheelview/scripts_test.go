//go:build unix

package main

// The scripts that look at the page.
const (
	distinctColors = `
		const c = document.getElementById(arguments[0]);
		const seen = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer));
		return seen.size;`

	drawnIn = `
		const c = document.getElementById(arguments[0]);
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		const hex = getComputedStyle(document.documentElement).getPropertyValue(arguments[1]).trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const color = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
		return pixels.filter((p) => p === color).length;`

	controlsShown = `
		return [...document.querySelectorAll("output")].map((e) => e.textContent)
			.concat([...document.querySelectorAll("select")].map((e) => e.value)).join(" ");`

	sameID = `
		const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
		return ids.filter((id, i) => ids.indexOf(id) !== i);`

	withoutLabel = `
		return [...document.querySelectorAll("input, select")].filter((e) => !(e.labels.length > 0 && e.labels[0].textContent.trim())).map((e) => e.id);`

	outside = `
		return [...document.querySelectorAll("body *")].filter((e) => {
			const box = e.getBoundingClientRect();
			return box.width > 1 && (box.right > innerWidth + 0.5 || box.left < -0.5);
		}).map((e) => e.tagName + "#" + e.id);`

	lowContrast = `
		const parse = (s) => s.match(/[\d.]+/g).map(Number);
		const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = (e) => {
			for (; e; e = e.parentElement) {
				const c = parse(getComputedStyle(e).backgroundColor);
				if (c.length < 4 || c[3] > 0) return c;
			}
			return [255, 255, 255];
		};
		const low = [];
		for (const e of document.querySelectorAll("body, body *")) {
			const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
			if (!text && !e.matches("input:not([type=range]), select") || e.closest("noscript, option")) continue;
			const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			const ratio = (a + 0.05) / (b + 0.05);
			if (ratio < 4.5) low.push(e.tagName + "#" + e.id + " " + ratio.toFixed(2) + " " + e.textContent.slice(0, 20));
		}
		return low;`

	// outlineAt returns 1 if the outline is around a point, given from the middle of the wheel, or else 0.
	outlineAt = `
		const path = document.querySelector("#outline path:last-child");
		if (arguments.length === 0) return path.getAttribute("d") ? 1 : 0;
		return path.isPointInFill(new DOMPoint(arguments[0], arguments[1])) ? 1 : 0;`

	hubFits = `
		const hub = parseFloat(getComputedStyle(document.getElementById("dial")).getPropertyValue("--hub"));
		const middle = document.getElementById("wheel").getBoundingClientRect();
		return [...document.querySelectorAll("#hub > *")].every((e) => {
			const r = e.getBoundingClientRect();
			const y = Math.max(Math.abs(r.top - middle.top - middle.height / 2), Math.abs(r.bottom - middle.top - middle.height / 2));
			return r.width === 0 || Math.hypot(r.width / 2, y) <= hub + 2;
		});`

	// labelsOutside reports whether every letter of a label is between its ring and the next.
	labelsOutside = `
		return import("/geometry.js").then(({ Geometry }) => {
			const labels = [...document.querySelectorAll("#labels text")];
			const g = new Geometry(document.getElementById("wheel").clientWidth, { levels: labels.length, size: arguments[0] });
			return labels.length > 0 && labels.every((e, level) => [...e.textContent].every((_, i) => {
				const p = e.getStartPositionOfChar(i);
				const radius = Math.hypot(p.x, p.y);
				const next = level + 1 < labels.length ? g.ring(level + 1)[0] : g.half;
				return radius > g.ring(level)[1] && radius + 0.75 * e.getAttribute("font-size") < next && p.y < 0;
			}));
		});`

	// linesDrawn returns the columns of the chart in which a line of the hand's color is drawn.
	linesDrawn = `
		const c = document.getElementById("lateness");
		const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
		const pixels = new Uint32Array(data.buffer);
		const hex = getComputedStyle(document.documentElement).getPropertyValue("--hand").trim();
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		const color = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
		const columns = [];
		for (let x = 0; x < c.width; x++) {
			let n = 0;
			for (let y = 0; y < c.height; y++) if (pixels[y * c.width + x] === color) n++;
			if (n > c.height / 3) columns.push(x);
		}
		return columns;`

	boxOf = `
		const r = document.getElementById(arguments[0]).getBoundingClientRect();
		const page = document.body.getBoundingClientRect();
		return [r.x - page.x, r.y - page.y, r.width, r.height];`

	// boxes returns the place of each element that is always there. It leaves out the table
	// and text in lines, which may change as long as everything around them stays.
	boxes = `
		const all = {};
		const page = document.body.getBoundingClientRect();
		let n = 0;
		for (const e of document.querySelectorAll("body, body *")) {
			if (e.closest("table, #readout *, #labels, #outline, #hub *, option")) continue;
			const r = e.getBoundingClientRect();
			if (e.matches("span, output, em") || r.width + r.height === 0) continue;
			all[n++ + " " + e.tagName + "#" + (e.id || e.className)] = [r.x - page.x, r.y - page.y, r.width, r.height].map((v) => v.toFixed(2)).join(" ");
		}
		return all;`
)
