from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0019_unchained'),
    ]

    operations = [
        migrations.AddField(
            model_name='fragmentrow',
            name='origin',
            field=models.CharField(blank=True, default='', max_length=60, db_index=True),
        ),
        migrations.AddField(
            model_name='noderow',
            name='draining_since',
            field=models.DateTimeField(null=True),
        ),
    ]
