/** The process of one measurement: runs `measure(task)` of a part and prints what it returns. */

const [part, task] = process.argv.slice(2);
const { measure } = await import(`./${part}.js`);
const result = await measure(JSON.parse(task));
// Some contenders keep timers that would hold the process for minutes.
process.stdout.write(JSON.stringify(result), () => process.exit());
