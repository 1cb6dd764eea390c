/** The child process of one measurement: runs `measure(task)` of a benchmark and prints the result as JSON. */

const [part, task] = process.argv.slice(2);
const { measure } = await import(`./${part}.js`);
const result = await measure(JSON.parse(task));
// Timers of some contenders would keep the process alive for minutes.
process.stdout.write(JSON.stringify(result), () => process.exit());
