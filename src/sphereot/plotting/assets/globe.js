// Interactive globe: rotated and zoomed with mouse, touch and keyboard. Orthographic projection on a canvas, without
// WebGL and without network access. Every <figure class="globe"> of the page becomes one, from the JSON in it.
"use strict";
(() => {
  const DEGREE = Math.PI / 180;
  const MIN_ZOOM = 0.5;
  const MAX_ZOOM = 30; // beyond it, the rounding of coordinates to 16 bits is visible
  const REST = 160; // ms after the last move until the picture is drawn in full resolution
  const TURN = 12; // degrees per second of a globe that turns by itself
  const DASHES = [[], [5, 3]]; // of outlines, in pixels: solid, dashed
  const MANY = 4000; // number of points above which squares are drawn instead of disks
  const LIGHT_FROM = 0.245; // relative luminance above which dark lines have more contrast than white ones

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const vectors = (text) => Float32Array.from(new Int16Array(bytes(text).buffer), (value) => value / 32767);

  // Meridians and parallels every 30 degrees: points, and the number of points of each line.
  function graticule() {
    const points = [];
    const lengths = [];
    const add = (longitudes, latitudes) => {
      longitudes.forEach((longitude, i) => {
        const [a, b] = [longitude * DEGREE, latitudes[i] * DEGREE];
        points.push(Math.cos(b) * Math.cos(a), Math.cos(b) * Math.sin(a), Math.sin(b));
      });
      lengths.push(longitudes.length);
    };
    const steps = Array.from({ length: 121 }, (_, i) => i / 120);
    for (let meridian = -180; meridian < 180; meridian += 30) {
      add(steps.map(() => meridian), steps.map((t) => 180 * t - 90));
    }
    for (let parallel = -60; parallel <= 60; parallel += 30) {
      add(steps.map((t) => 360 * t), steps.map(() => parallel));
    }
    return { points: Float32Array.from(points), lengths };
  }

  // Values with 16 bits per cell, the 256 colors as pixels, and which of them are light (_axes.py has the same
  // limit).
  function readDensity(data) {
    const rgb = bytes(data.colors);
    const colors = new Uint32Array(256);
    const light = new Uint8Array(256);
    for (let i = 0; i < 256; i++) {
      const [red, green, blue] = rgb.subarray(3 * i, 3 * i + 3);
      colors[i] = 0xff000000 | (blue << 16) | (green << 8) | red;
      light[i] = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) > LIGHT_FROM;
    }
    return { ...data, colors, light, values: new Uint16Array(bytes(data.values).buffer) };
  }

  function linear(channel) {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }

  // Level on the color scale, 0 to 65535, interpolated between the four nearest cells; columns are periodic.
  function level(density, x, y, z) {
    const { rows, columns, values } = density;
    const row = clamp((Math.asin(clamp(z, -1, 1)) / Math.PI + 0.5) * rows - 0.5, 0, rows - 1);
    let column = (Math.atan2(y, x) / (2 * Math.PI) + 0.5) * columns - 0.5;
    if (column < 0) column += columns;
    const south = Math.min(row | 0, rows - 2);
    const west = (column | 0) % columns;
    const east = (west + 1) % columns;
    const v = row - south;
    const u = column - (column | 0);
    const low = south * columns;
    const high = low + columns;
    return (
      (1 - v) * ((1 - u) * values[low + west] + u * values[low + east]) +
      v * ((1 - u) * values[high + west] + u * values[high + east])
    );
  }

  // Lines split into parts over light and over dark colors; neighboring parts share a point.
  function byShade({ points, lengths }, density) {
    const parts = [0, 1].map(() => ({ points: [], lengths: [] }));
    let k = 0;
    for (const length of lengths) {
      let shade = -1;
      for (const end = k + 3 * length; k < end; k += 3) {
        const point = points.subarray(k, k + 3);
        if (shade >= 0) {
          parts[shade].points.push(...point);
          parts[shade].lengths[parts[shade].lengths.length - 1] += 1;
        }
        const here = density.light[level(density, ...point) >> 8];
        if (here === shade) continue;
        shade = here;
        parts[shade].points.push(...point);
        parts[shade].lengths.push(1);
      }
    }
    return { dark: parts[0], light: parts[1] };
  }

  class Globe {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      this.figure = figure;
      this.canvas = figure.querySelector(".globe-view");
      this.location = figure.querySelector(".globe-location");
      this.context = this.canvas.getContext("2d");
      this.raster = document.createElement("canvas");
      this.home = data.center;
      this.wheelAlways = data.wheel;
      this.density = data.density && readDensity(data.density);
      const lines = ({ points, lengths }) => ({ points: vectors(points), lengths });
      this.shores = data.shores && lines(data.shores);
      this.regions = data.regions && data.regions.map(lines);
      this.graticule = graticule();
      if (this.density) {
        this.graticule = byShade(this.graticule, this.density);
        this.shores = this.shores && byShade(this.shores, this.density);
      }
      this.samples = data.samples.map(({ points, color }) => ({ points: vectors(points), color, shown: true }));
      this.shoresShown = true;
      this.regionsShown = true;
      this.pointers = new Map();
      this.fillLegend();
      this.listen();
      this.reset();
      if (data.turn && !window.matchMedia("(prefers-reduced-motion: reduce)").matches) this.setTurning(true);
    }

    // ---- legend and location ----

    fillLegend() {
      this.fillSwatches();
      if (!this.density) return;
      const bar = this.figure.querySelector(".globe-bar");
      [bar.width, bar.height] = [256, 1];
      const image = new ImageData(256, 1);
      new Uint32Array(image.data.buffer).set(this.density.colors);
      bar.getContext("2d").putImageData(image, 0, 0);
      const ticks = this.figure.querySelector(".globe-ticks");
      for (const [position, text] of this.density.ticks) {
        const tick = document.createElement("span");
        tick.textContent = text;
        tick.style.left = `${100 * position}%`;
        ticks.append(tick);
      }
    }

    fillSwatches() {
      this.figure.querySelectorAll(".globe-swatch").forEach((swatch, k) => {
        swatch.style.background = this.ink(this.samples[k].color);
      });
    }

    ink(name) {
      return name.startsWith("--") ? getComputedStyle(this.figure).getPropertyValue(name) : name;
    }

    showLocation(x, y, z, announce) {
      const latitude = Math.asin(clamp(z, -1, 1)) / DEGREE;
      const longitude = Math.atan2(y, x) / DEGREE;
      const side = (value, positive, negative) =>
        `${Math.abs(value).toFixed(1)}° ${value < 0 ? negative : positive}`;
      let text = `${side(latitude, "N", "S")}, ${side(longitude, "E", "W")}`;
      if (this.density) {
        const { scale, above, below } = this.density;
        const at = (level(this.density, x, y, z) / 65535) * (scale.length - 1);
        const cell = Math.min(at | 0, scale.length - 2);
        const value = scale[cell] + (at - cell) * (scale[cell + 1] - scale[cell]);
        const beyond = above && at >= scale.length - 1.001 ? "≥ " : below && at < 0.001 ? "≤ " : "";
        const label = this.figure.querySelector(".globe-label").textContent;
        text += ` · ${label}: ${beyond}${Number(value.toPrecision(3))}`;
      }
      this.location.setAttribute("aria-live", announce ? "polite" : "off"); // screen readers must not read every mouse move
      this.location.textContent = text;
    }

    // ---- the view ----

    reset() {
      [this.longitude, this.latitude] = this.home;
      this.zoom = 1;
      this.moved(true);
    }

    rotate(east, north, announce) {
      this.longitude = ((((this.longitude + east + 180) % 360) + 360) % 360) - 180;
      this.latitude = clamp(this.latitude + north, -90, 90);
      this.moved(announce);
    }

    // A turning globe goes on until it is touched, and stands still while it is out of sight.
    setTurning(turning) {
      const box = this.figure.querySelector("input[data-turn]");
      if (box) box.checked = turning;
      if (turning === Boolean(this.turning)) return;
      this.turning = turning;
      if (!turning) return;
      let last = performance.now();
      const turn = (now) => {
        if (!this.turning) return;
        if (this.inSight !== false) this.rotate((TURN * Math.min(now - last, 100)) / 1000, 0, false);
        last = now;
        requestAnimationFrame(turn);
      };
      requestAnimationFrame(turn);
    }

    scale(factor) {
      this.zoom = clamp(this.zoom * factor, MIN_ZOOM, MAX_ZOOM);
      this.moved(false);
    }

    moved(announce) {
      const [a, b] = [this.longitude * DEGREE, this.latitude * DEGREE];
      this.east = [-Math.sin(a), Math.cos(a), 0];
      this.north = [-Math.sin(b) * Math.cos(a), -Math.sin(b) * Math.sin(a), Math.cos(b)];
      this.toward = [Math.cos(b) * Math.cos(a), Math.cos(b) * Math.sin(a), Math.sin(b)];
      this.figure.dataset.longitude = this.longitude.toFixed(2);
      this.figure.dataset.latitude = this.latitude.toFixed(2);
      this.figure.dataset.zoom = this.zoom.toFixed(3);
      this.showLocation(...this.toward, announce);
      this.draw(true);
    }

    // Coarse picture while moving, full resolution at rest.
    draw(moving) {
      cancelAnimationFrame(this.frame);
      clearTimeout(this.rest);
      delete this.figure.dataset.atRest;
      this.frame = requestAnimationFrame(() => {
        this.paint(moving ? 2 : 1);
        if (!moving) this.figure.dataset.atRest = "";
      });
      if (moving) this.rest = setTimeout(() => this.draw(false), REST);
    }

    paint(step) {
      const dots = window.devicePixelRatio || 1;
      const width = Math.max(1, Math.round(this.canvas.clientWidth * dots));
      const height = Math.max(1, Math.round(this.canvas.clientHeight * dots));
      if (this.canvas.width !== width || this.canvas.height !== height) {
        [this.canvas.width, this.canvas.height] = [width, height];
      }
      const radius = (Math.min(width, height) / 2 - 4 * dots) * this.zoom;
      Object.assign(this, { dots, middle: [width / 2, height / 2], radius });
      const context = this.context;
      context.clearRect(0, 0, width, height);
      context.lineJoin = "round";
      context.save();
      context.beginPath();
      context.arc(...this.middle, radius, 0, 2 * Math.PI);
      context.fillStyle = this.ink("--ball");
      context.fill();
      context.clip();
      if (this.density) this.paintDensity(width, height, step);
      this.paintOnBall(this.graticule, "--graticule", 0.35, 0.7);
      // Beside outlines of regions, coastlines are fainter.
      if (this.shores && this.shoresShown) this.paintOnBall(this.shores, "--shore", this.regions ? 0.45 : 1, 0.9);
      if (this.regions && this.regionsShown) this.paintRegions();
      context.restore();
      context.beginPath();
      context.arc(...this.middle, radius, 0, 2 * Math.PI);
      context.strokeStyle = this.ink("--quiet");
      context.lineWidth = dots;
      context.stroke();
      for (const sample of this.samples) if (sample.shown) this.paintPoints(sample, width, height);
    }

    paintDensity(width, height, step) {
      const [columns, rows] = [Math.ceil(width / step), Math.ceil(height / step)];
      const image = new ImageData(columns, rows);
      const pixels = new Uint32Array(image.data.buffer);
      const { density, radius, east, north, toward } = this;
      const colors = density.colors;
      const rim = (1 + (2 * step) / radius) ** 2; // a little beyond the rim, which clipping makes smooth
      for (let j = 0; j < rows; j++) {
        const y = (this.middle[1] - (j + 0.5) * step) / radius;
        for (let i = 0; i < columns; i++) {
          const x = ((i + 0.5) * step - this.middle[0]) / radius;
          const away = x * x + y * y;
          if (away > rim) continue;
          const shrink = away > 1 ? 1 / Math.sqrt(away) : 1;
          const near = away > 1 ? 0 : Math.sqrt(1 - away);
          const u = x * shrink;
          const v = y * shrink;
          const value = level(
            density,
            u * east[0] + v * north[0] + near * toward[0],
            u * east[1] + v * north[1] + near * toward[1],
            v * north[2] + near * toward[2],
          );
          pixels[j * columns + i] = colors[value >> 8];
        }
      }
      [this.raster.width, this.raster.height] = [columns, rows];
      this.raster.getContext("2d").putImageData(image, 0, 0);
      this.context.drawImage(this.raster, 0, 0, columns * step, rows * step);
    }

    // Lines in a color of the page, or in white and dark on a density; `opacity` applies on a density only.
    paintOnBall(lines, color, opacity, thickness) {
      if (!this.density) {
        this.paintLines(lines, this.ink(color), thickness);
        return;
      }
      this.paintLines(lines.dark, `rgb(255 255 255 / ${opacity})`, thickness);
      this.paintLines(lines.light, `rgb(51 51 51 / ${opacity})`, thickness);
    }

    // Outlines, solid and dashed, with a rim that keeps them visible on any color.
    paintRegions() {
      const [ink, rim] = this.density ? ["#222222", "#ffffff"] : [this.ink("--ink"), this.ink("--ball")];
      this.regions.forEach((lines, k) => {
        this.paintLines(lines, rim, 4);
        this.context.setLineDash(DASHES[k].map((length) => length * this.dots));
        this.paintLines(lines, ink, 1.8);
        this.context.setLineDash([]);
      });
    }

    paintLines({ points, lengths }, color, thickness) {
      const { context, east, north, toward, radius } = this;
      const [left, top] = this.middle;
      context.beginPath();
      let k = 0;
      for (const length of lengths) {
        let pen = false;
        for (const end = k + 3 * length; k < end; k += 3) {
          const x = points[k];
          const y = points[k + 1];
          const z = points[k + 2];
          if (x * toward[0] + y * toward[1] + z * toward[2] < 0) {
            pen = false;
            continue;
          }
          const across = left + radius * (x * east[0] + y * east[1]);
          const down = top - radius * (x * north[0] + y * north[1] + z * north[2]);
          if (pen) context.lineTo(across, down);
          else context.moveTo(across, down);
          pen = true;
        }
      }
      context.strokeStyle = color;
      context.lineWidth = thickness * this.dots;
      context.stroke();
    }

    paintPoints({ points, color }, width, height) {
      const { context, east, north, toward, radius, dots } = this;
      const count = points.length / 3;
      const room = clamp(radius / this.zoom / dots / 300, 0.6, 1.2); // smaller on a small screen
      const size = room * clamp(Math.sqrt(2500 / count), 1.3, 4) * Math.min(this.zoom ** 0.4, 2.5) * dots;
      const many = count > MANY;
      const marks = new Path2D();
      const rims = new Path2D(); // larger squares, which are faster to draw than outlines of many small ones
      for (let k = 0; k < points.length; k += 3) {
        const x = points[k];
        const y = points[k + 1];
        const z = points[k + 2];
        if (x * toward[0] + y * toward[1] + z * toward[2] < 0) continue;
        const across = this.middle[0] + radius * (x * east[0] + y * east[1]);
        const down = this.middle[1] - radius * (x * north[0] + y * north[1] + z * north[2]);
        if (across < -size || down < -size || across > width + size || down > height + size) continue;
        if (many) {
          const rim = size + 0.6 * dots;
          marks.rect(across - size, down - size, 2 * size, 2 * size);
          rims.rect(across - rim, down - rim, 2 * rim, 2 * rim);
        } else {
          marks.moveTo(across + size, down);
          marks.arc(across, down, size, 0, 2 * Math.PI);
        }
      }
      const outline = this.density ? "rgb(0 0 0 / 0.75)" : this.ink("--ball");
      if (many && this.density) {
        context.fillStyle = outline;
        context.fill(rims);
      }
      context.fillStyle = this.ink(color);
      context.fill(marks);
      if (many) return;
      context.strokeStyle = outline;
      context.lineWidth = 0.6 * dots;
      context.stroke(marks);
    }

    // ---- events ----

    listen() {
      const { canvas } = this;
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("pointerdown", (event) => {
        this.setTurning(false);
        canvas.setPointerCapture(event.pointerId);
        canvas.classList.add("held");
        this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      });
      canvas.addEventListener("pointermove", (event) => this.drag(event));
      for (const end of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(end, (event) => {
          this.pointers.delete(event.pointerId);
          canvas.classList.toggle("held", this.pointers.size > 0);
        });
      }
      canvas.addEventListener("pointerleave", () => this.showLocation(...this.toward, false));
      canvas.addEventListener(
        "wheel",
        (event) => {
          // In a page that scrolls, the wheel scrolls unless the globe has the focus.
          if (!this.wheelAlways && document.activeElement !== canvas) return;
          event.preventDefault();
          this.setTurning(false);
          this.scale(Math.exp(-clamp(event.deltaY * (event.deltaMode === 1 ? 30 : 1), -200, 200) / 500));
        },
        { passive: false },
      );
      const acts = { in: () => this.scale(1.25), out: () => this.scale(0.8), reset: () => this.reset() };
      for (const button of this.figure.querySelectorAll("button[data-act]")) {
        button.addEventListener("click", () => {
          this.setTurning(false);
          acts[button.dataset.act]();
        });
      }
      for (const box of this.figure.querySelectorAll("input[type=checkbox]")) {
        box.addEventListener("change", () => {
          if (box.dataset.turn !== undefined) {
            this.setTurning(box.checked);
            return;
          }
          if (box.dataset.regions !== undefined) this.regionsShown = box.checked;
          else if (box.dataset.sample === undefined) this.shoresShown = box.checked;
          else this.samples[Number(box.dataset.sample)].shown = box.checked;
          this.draw(false);
        });
      }
      new ResizeObserver(() => this.draw(false)).observe(canvas);
      new IntersectionObserver(([entry]) => (this.inSight = entry.isIntersecting)).observe(canvas);
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        this.fillSwatches();
        this.draw(false);
      });
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const step = (event.shiftKey ? 2 : 10) / Math.max(1, this.zoom);
      const acts = {
        ArrowLeft: () => this.rotate(-step, 0, true),
        ArrowRight: () => this.rotate(step, 0, true),
        ArrowUp: () => this.rotate(0, step, true),
        ArrowDown: () => this.rotate(0, -step, true),
        "+": () => this.scale(1.25),
        "=": () => this.scale(1.25), // the same key without shift
        "-": () => this.scale(0.8),
        Home: () => this.reset(),
        0: () => this.reset(),
      };
      if (!Object.hasOwn(acts, event.key)) return;
      event.preventDefault();
      this.setTurning(false);
      acts[event.key]();
    }

    drag(event) {
      const now = [event.offsetX, event.offsetY];
      if (!this.pointers.has(event.pointerId)) {
        this.point(...now);
        return;
      }
      const before = [...this.pointers.values()];
      const last = this.pointers.get(event.pointerId);
      this.pointers.set(event.pointerId, now);
      if (before.length === 2) {
        const after = [...this.pointers.values()];
        const apart = ([first, second]) => Math.hypot(first[0] - second[0], first[1] - second[1]);
        if (apart(before) > 0) this.scale(apart(after) / apart(before));
      }
      // The location under the pointer follows it; with two fingers, each moves the point between them by half.
      const reach = ((this.radius / this.dots) * DEGREE) * before.length;
      this.rotate(-(now[0] - last[0]) / reach, (now[1] - last[1]) / reach, false);
    }

    point(across, down) {
      if (!this.radius) return; // nothing is drawn yet
      const x = (across * this.dots - this.middle[0]) / this.radius;
      const y = (this.middle[1] - down * this.dots) / this.radius;
      const near = 1 - x * x - y * y;
      if (near < 0) return;
      const z = Math.sqrt(near);
      const { east, north, toward } = this;
      this.showLocation(...[0, 1, 2].map((i) => x * east[i] + y * north[i] + z * toward[i]), false);
    }
  }

  for (const figure of document.querySelectorAll("figure.globe")) new Globe(figure);
})();
