// Two small drawings of the estate: the water over the weir, and a rate's history as a line.

const [WIDTH, BED, TOP] = [400, 80, 8];
const CREST = 190;

/** Water stands as high before the weir as tasks without sharing, and after it as high as tasks that run. */
export function drawWeir(svg, running, apart) {
  const depth = (tasks) => (apart ? ((BED - TOP) * tasks) / apart : 0);
  const up = BED - depth(apart);
  const down = BED - depth(running);
  const fall = `M${CREST} ${up}C${CREST + 26} ${up} ${CREST + 22} ${down} ${CREST + 52} ${down}`;
  const set = (name, d) => svg.querySelector(`.${name}`)?.setAttribute("d", d);
  set("weir-up", `M0 ${up}H${CREST}V${BED}H0Z`);
  set("weir-down", `${fall}H${WIDTH}V${BED}H${CREST}Z`);
  set("weir-line", `M0 ${up}H${CREST}${fall.slice(fall.indexOf("C"))}H${WIDTH}`);
}

export function drawSpark(svg, values) {
  const [width, height] = [400, 84];
  const known = values.filter((value) => value != null);
  if (known.length < 2) return;
  const top = Math.max(...known, 1) * 1.1;
  const x = (index) => ((index * width) / (values.length - 1)).toFixed(1);
  const y = (value) => (height - 2 - ((value ?? 0) / top) * (height - 6)).toFixed(1);
  const line = values.map((value, index) => `${index ? "L" : "M"}${x(index)} ${y(value)}`).join("");
  svg.querySelector(".spark-line").setAttribute("d", line);
  svg.querySelector(".spark-area").setAttribute("d", `${line}L${width} ${height}L0 ${height}Z`);
}
