'use strict';

const fs = require('fs');
const path = require('path');

class TodoList {
  constructor(file) {
    this.file = file;
    this.items = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : [];
  }

  add(text) {
    this.items.push({ text, done: false, created: Date.now() });
    this.save();
  }

  finish(index) {
    if (!this.items[index]) {
      throw new RangeError(`no item ${index}`);
    }
    this.items[index].done = true;
    this.save();
  }

  save() {
    fs.writeFileSync(this.file, JSON.stringify(this.items, null, 2));
  }
}

const list = new TodoList(path.join(__dirname, 'todo.json'));
process.argv.slice(2).forEach((text) => list.add(text));
console.log(list.items.filter((item) => !item.done).map((item) => item.text).join('\n'));

module.exports = { TodoList };
